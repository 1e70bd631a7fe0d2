"""The endpoints that each caller may see, cached briefly."""

from __future__ import annotations

import hashlib
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from sluice.v1.endpoint_pb2 import Endpoint, ServedEntity
from sluice.v1.model_pb2 import Model

from gateway.dialects.seam.failure import Failure
from gateway.upstream.caller import Caller

_MAX_AGE_S: Final = 2.0  # seconds for which a list is fresh
_MAX_LISTS: Final = 1024


class EndpointSource(Protocol):
    """The source of the endpoints: a ServiceClient."""

    async def list_endpoints(self, caller: Caller) -> list[Endpoint]:
        """Return all endpoints that the caller may see. Raise Failure."""

    async def list_models(self, caller: Caller) -> list[Model]:
        """Return all models that the caller may see. Raise Failure."""


@dataclass(frozen=True, slots=True)
class _Listing:
    """The endpoints that a caller may use, and the time at which they were listed."""

    endpoints: Sequence[Endpoint]
    listed_at: float


class EndpointLists:
    """One list per credential, because the credential determines which endpoints are visible. Used on the event loop.

    Credentials are stored as hashes with a key of this process; only fresh lists are kept, at most 1,024.
    """

    def __init__(self, source: EndpointSource, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._clock = clock
        self._key = os.urandom(32)
        self._listings: OrderedDict[bytes, _Listing] = OrderedDict()  # oldest first

    async def visible_to(self, caller: Caller) -> Sequence[Endpoint]:
        """Return the endpoints that the caller may see. Raise Failure."""
        self._forget_stale()
        credential = self._hash(caller)
        listing = self._listings.get(credential)
        if listing is None:
            listing = _Listing(await self._list(caller), self._clock())
            self._listings[credential] = listing
            self._listings.move_to_end(credential)
            if len(self._listings) > _MAX_LISTS:
                self._listings.popitem(last=False)
        return listing.endpoints

    async def _list(self, caller: Caller) -> Sequence[Endpoint]:
        """Return the endpoints that a caller may use. Raise Failure."""
        try:
            return await self._source.list_endpoints(caller)
        except Failure as failure:
            if failure.status != 403:
                raise
        # A key that may generate may lack the right to list endpoints; it can still use the models' own endpoints.
        models = await self._source.list_models(caller)
        return [
            Endpoint(
                name=model.name,
                task=model.tasks[0],
                entities=[ServedEntity(name=model.name, model=model.name, traffic_percentage=100)],
                is_model=True,
                parent=model.parent,
            )
            for model in models
        ]

    def _forget_stale(self) -> None:
        """Remove lists that are no longer fresh."""
        oldest_valid = self._clock() - _MAX_AGE_S
        while self._listings and next(iter(self._listings.values())).listed_at <= oldest_valid:
            self._listings.popitem(last=False)

    def _hash(self, caller: Caller) -> bytes:
        """Return the hash of a credential; empty without one, which differs from an empty credential."""
        if caller.authorization is None:
            return b""
        return hashlib.blake2b(caller.authorization.encode(), key=self._key, digest_size=32).digest()
