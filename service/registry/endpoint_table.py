"""The endpoints that are not a model's own.

There are the endpoints of the settings, and those that callers made, which a store keeps if there
is one. Within a call the table has what the caller may reach, and nothing else. It belongs to the event loop; the store
is written on another thread.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from service.call import current_caller
from service.registry.description import Endpoint, ServedEntity
from service.registry.errors import (
    DeploymentNotFound,
    EndpointExists,
    EndpointNotFound,
    EndpointReadOnly,
    EndpointsUnavailable,
    ModelNotFound,
    TooManyEndpoints,
)
from service.registry.traffic import Draw, draw_entity
from service.storage.shared_text import Outdated, SharedTextLost

MAX_ENDPOINTS = 1000  # each change writes them all
_MAX_TRIES = 8  # of a change that others have come before
_LOOK_S = 1.0  # how often the store is asked for what others have changed

_log = logging.getLogger(__name__)


class EndpointStore(Protocol):
    """Keeps the endpoints that callers made. All of it may block. What raises changes nothing."""

    def read(self) -> Sequence[Endpoint]:
        """What it holds. Raises OSError, or SharedTextLost."""

    def write(self, endpoints: Iterable[Endpoint]) -> None:
        """Put `endpoints` in place of what it holds. Raises OSError, SharedTextLost, or Outdated if that is new."""

    def is_newer(self) -> bool:
        """Whether it holds something else than what was read or written last. Raises OSError, or SharedTextLost."""


class EntityLoad(NamedTuple):
    """How many requests for an endpoint one of its entities was chosen for."""

    endpoint: str
    entity: ServedEntity
    num_requests: int


class EndpointTable:
    """All such endpoints."""

    def __init__(
        self,
        configured: Iterable[Endpoint] = (),
        made: Iterable[Endpoint] = (),
        store: EndpointStore | None = None,
        *,
        draw: Draw = random.randrange,
    ) -> None:
        """`configured` are those of the settings, `made` what `store` holds now. Without one, changes last to the end.

        A name in the store that the settings have too waits there until they no longer have it.
        """
        self._configured = {endpoint.name: endpoint for endpoint in configured}
        self._made: Mapping[str, Endpoint] = {endpoint.name: endpoint for endpoint in made}
        self._store = store
        self._draw = draw
        self._changing = asyncio.Lock()
        self._num_requests: Counter[tuple[str, str]] = Counter()  # by endpoint and entity

    def configure(self, configured: Iterable[Endpoint]) -> None:
        """Put these in place of the endpoints of the settings."""
        self._configured = {endpoint.name: endpoint for endpoint in configured}
        self._forget_absent()

    def __iter__(self) -> Iterator[Endpoint]:
        """The endpoints in the order of their names."""
        return iter(filter(None, map(self.find, sorted({*self._made, *self._configured}))))

    def find(self, name: str) -> Endpoint | None:
        """The endpoint of that name, if there is one."""
        endpoint = self._configured.get(name) or self._made.get(name)
        return endpoint if endpoint is not None and _is_seen(endpoint) else None

    def is_taken(self, name: str) -> bool:
        """Whether an endpoint has that name, be it one that is kept from the caller."""
        return name in self._configured or name in self._made

    def get(self, name: str) -> Endpoint:
        """Raises EndpointNotFound."""
        if (found := self.find(name)) is None:
            raise EndpointNotFound(name)
        return found

    def choose(self, name: str, deployment: str, model: str = "") -> ServedEntity:
        """What serves the next request to `name`: the entity named `deployment`, or without a name one by traffic.

        Of several it is one of `model`, if there is any: what has begun goes on where it was.

        Raises ModelNotFound if there is no such endpoint: to who asks for an answer, endpoints and models are alike.
        Raises DeploymentNotFound if it has no such deployment.
        """
        endpoint = self.find(name)
        if endpoint is None:
            raise ModelNotFound(name)
        entity = self._entity(endpoint, deployment, model)
        self._num_requests[name, entity.name] += 1
        return entity

    def loads(self) -> Iterator[EntityLoad]:
        """What the entities were chosen for since they came to their endpoints, in the order of the endpoints."""
        for endpoint in self:
            for entity in endpoint.entities:
                yield EntityLoad(endpoint.name, entity, self._num_requests[endpoint.name, entity.name])

    def _entity(self, endpoint: Endpoint, deployment: str, model: str) -> ServedEntity:
        if not deployment:
            began = next((entity for entity in endpoint.entities if entity.model == model), None)
            return began or draw_entity(endpoint.entities, self._draw)
        for entity in endpoint.entities:
            if entity.name == deployment:
                return entity
        raise DeploymentNotFound(endpoint.name, deployment)

    async def add(self, name: str, make: Callable[[], Endpoint]) -> Endpoint:
        """Make an endpoint of that name, `make()`, and return it.

        Changes go one after the other, and are on the disk when this returns, even if its caller leaves meanwhile; one
        that can't be written is not made. Raises EndpointExists, of an endpoint that is kept from the caller as well,
        TooManyEndpoints, OSError, and what `make` raises.
        """
        return await asyncio.shield(self._add(name, make))

    async def change(self, name: str, make: Callable[[Endpoint], Endpoint]) -> Endpoint:
        """Put `make(the endpoint of that name)` in its place, and return it.

        Raises EndpointNotFound, EndpointReadOnly for an endpoint of the settings, and as `add` does.
        """
        return await asyncio.shield(self._change(name, make))

    async def remove(self, name: str, check: Callable[[Endpoint], None] = lambda _: None) -> None:
        """Remove the endpoint of that name. Raises as `change` does, and what `check` of it raises."""
        await asyncio.shield(self._remove(name, check))

    async def follow(self, on_loss: Callable[[bool], Awaitable[None]], look_s: float = _LOOK_S) -> None:
        """Keep up with what others change in the store, until cancelled.

        While it is lost, what was known stays; `on_loss` is told whether it is, whenever that changes.
        """
        is_lost = False
        while True:
            await asyncio.sleep(look_s)
            try:
                async with self._changing:
                    await self._catch_up()
                reason = ""
            except (OSError, SharedTextLost) as error:
                reason = str(error)
            if bool(reason) is not is_lost:
                is_lost = bool(reason)
                if is_lost:
                    text = "the endpoints' store is lost; those known stay, and can't be changed until it is back"
                    _log.warning(text, extra={"fields": {"reason": reason}})
                else:
                    _log.info("the endpoints' store is back")
                await on_loss(is_lost)

    async def _catch_up(self) -> None:
        if self._store is not None and await asyncio.to_thread(self._store.is_newer):
            made = await asyncio.to_thread(self._store.read)
            self._made = {endpoint.name: endpoint for endpoint in made}
            self._forget_absent()

    async def _add(self, name: str, make: Callable[[], Endpoint]) -> Endpoint:
        def added() -> tuple[Endpoint, Mapping[str, Endpoint]]:
            if self.is_taken(name):
                raise EndpointExists(name)
            endpoint = make()
            if len(self._made) >= MAX_ENDPOINTS:
                raise TooManyEndpoints(MAX_ENDPOINTS)
            return endpoint, {**self._made, name: endpoint}

        return await self._keep(added)

    async def _change(self, name: str, make: Callable[[Endpoint], Endpoint]) -> Endpoint:
        def changed() -> tuple[Endpoint, Mapping[str, Endpoint]]:
            endpoint = make(self._changeable(name))
            return endpoint, {**self._without(name), name: endpoint}

        return await self._keep(changed)

    async def _remove(self, name: str, check: Callable[[Endpoint], None]) -> None:
        def removed() -> tuple[Endpoint, Mapping[str, Endpoint]]:
            check(endpoint := self._changeable(name))
            return endpoint, self._without(name)

        await self._keep(removed)

    def _changeable(self, name: str) -> Endpoint:
        endpoint = self.get(name)
        if name in self._configured:
            raise EndpointReadOnly(name, "is part of the service's settings; change it there")
        return endpoint

    def _without(self, name: str) -> Mapping[str, Endpoint]:
        return {other: each for other, each in self._made.items() if other != name}

    async def _keep(self, change: Callable[[], tuple[Endpoint, Mapping[str, Endpoint]]]) -> Endpoint:
        """Make a change of what there is now, of the newest that others made, and return its endpoint."""
        async with self._changing:
            for _ in range(_MAX_TRIES):
                endpoint, made = change()
                try:
                    if await self._is_written(made):
                        self._made = made
                        self._forget_absent()
                        return endpoint
                    await self._catch_up()
                except SharedTextLost as error:
                    raise EndpointsUnavailable(_LOOK_S) from error
        raise EndpointsUnavailable(_LOOK_S)

    async def _is_written(self, made: Mapping[str, Endpoint]) -> bool:
        """Whether the store holds `made` now; False if others have changed it."""
        if self._store is None:
            return True
        try:
            await asyncio.to_thread(self._store.write, made.values())
        except Outdated:
            return False
        return True

    def _forget_absent(self) -> None:
        """Of requests that were counted."""
        present = {
            (each.name, entity.name)
            for each in (*self._made.values(), *self._configured.values())
            for entity in each.entities
        }
        self._num_requests = Counter({key: count for key, count in self._num_requests.items() if key in present})


def _is_seen(endpoint: Endpoint) -> bool:
    return current_caller().may_reach(endpoint.name, (entity.model for entity in endpoint.entities))
