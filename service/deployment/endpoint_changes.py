"""Create, update and delete endpoints: changes of the wanted endpoints, which the endpoint table follows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeVar

from service.deployment.endpoint_document import EndpointDocument
from service.deployment.wanted_state import REFRESH_INTERVAL_S, WantedState
from service.generation.caller import Caller
from service.registry.description import Endpoint
from service.registry.errors import (
    EndpointExists,
    EndpointNotFound,
    EndpointReadOnly,
    EndpointsUnavailable,
    TooManyEndpoints,
)
from service.registry.registry import Registry
from service.storage.document import DocumentStore
from service.storage.shared_text import Outdated, SharedTextLost

MAX_ENDPOINTS: Final = 1000  # the limit of endpoints, because each change writes all of them
_UNREADABLE: Final = "was written by a newer version of the service, which can change it; this one can't read it"
_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)


class EndpointChanges:
    """The endpoints that clients create.

    A change is stored when it returns, even if its client disconnects meanwhile.
    """

    def __init__(self, registry: Registry, store: DocumentStore[EndpointDocument]) -> None:
        self._registry = registry
        self._unreadable: frozenset[str] = frozenset()  # names in the log
        self._is_started = False
        self._wanted = WantedState("endpoints", store, EndpointDocument(), self._apply)

    @property
    def wanted(self) -> WantedState[EndpointDocument]:
        """The wanted endpoints."""
        return self._wanted

    def start(self) -> None:
        """Serve the wanted endpoints.

        Before that, endpoints take no names, because the models of the settings have precedence.
        """
        self._is_started = True
        self._apply(self._wanted.newest)

    async def add(self, name: str, create: Callable[[], Endpoint]) -> Endpoint:
        """Create an endpoint, `create()`, and return it.

        Raise EndpointExists if the name is taken, even by an endpoint that the caller can't see, TooManyEndpoints,
        EndpointsUnavailable, and what `create` raises.
        """

        def added(document: EndpointDocument) -> tuple[EndpointDocument, Endpoint]:
            if self._registry.endpoints.is_taken(name):
                raise EndpointExists(name)
            endpoint = create()
            if len(document.endpoints) + len(document.unreadable) >= MAX_ENDPOINTS:
                raise TooManyEndpoints(MAX_ENDPOINTS)
            return document.with_endpoint(endpoint), endpoint

        return await asyncio.shield(self._store(added))

    async def change(self, name: str, caller: Caller, update: Callable[[Endpoint], Endpoint]) -> Endpoint:
        """Replace an endpoint by `update` of it, and return the new one.

        Raise EndpointNotFound if the caller can't see it, EndpointReadOnly for one of the settings or one that can't
        be read, EndpointsUnavailable, and what `update` raises.
        """

        def changed(document: EndpointDocument) -> tuple[EndpointDocument, Endpoint]:
            endpoint = update(self._changeable(name, caller))
            return document.with_endpoint(endpoint), endpoint

        return await asyncio.shield(self._store(changed))

    async def remove(self, name: str, caller: Caller, check: Callable[[Endpoint], None] = lambda _: None) -> None:
        """Delete an endpoint. Raise the errors of `change`, and what `check` of the endpoint raises."""

        def removed(document: EndpointDocument) -> tuple[EndpointDocument, None]:
            check(self._changeable(name, caller))
            return document.without_endpoint(name), None

        await asyncio.shield(self._store(removed))

    def _changeable(self, name: str, caller: Caller) -> Endpoint:
        """Return the endpoint that a caller wants to change. Raise EndpointNotFound or EndpointReadOnly."""
        is_unreadable = name in self._wanted.newest.unreadable_names and not self._registry.endpoints.is_configured(
            name
        )
        if is_unreadable and caller.may_reach(name, ()):
            raise EndpointReadOnly(name, _UNREADABLE)
        if (endpoint := self._registry.visible_to(caller).find_endpoint(name)) is None:
            raise EndpointNotFound(name)
        if self._registry.endpoints.is_configured(name):
            raise EndpointReadOnly(name, "is part of the service's settings; change it there")
        return endpoint

    async def _store(self, change: Callable[[EndpointDocument], tuple[EndpointDocument, _Result]]) -> _Result:
        """Store a change and return its result. Raise EndpointsUnavailable if the store fails."""
        results: list[_Result] = []

        def changed(document: EndpointDocument) -> EndpointDocument:
            document, result = change(document)
            results.append(result)
            return document

        try:
            await self._wanted.store(changed)
        except (OSError, SharedTextLost, Outdated) as error:
            _log.warning("a change of an endpoint could not be stored", extra={"fields": {"reason": str(error)}})
            raise EndpointsUnavailable(REFRESH_INTERVAL_S) from error
        return results[-1]

    def _apply(self, document: EndpointDocument) -> None:
        """Serve the document's endpoints, and log those that can't be read."""
        if not self._is_started:
            return
        names = document.unreadable_names
        self._registry.endpoints.replace_created(document.endpoints.values(), names)
        for each in document.unreadable:
            if each.name not in self._unreadable:
                text = "an endpoint can't be read; it is kept as a newer version wrote it, and not served here"
                _log.warning(text, extra={"fields": {"endpoint": each.name, "reason": each.reason}})
        self._unreadable = names
