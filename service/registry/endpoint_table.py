"""The endpoints that are not a model's own: those of the settings, and those that clients created.

The table is used on the event loop only. `service.deployment.endpoint_changes` sets the endpoints that clients created.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from service.registry.description import Endpoint, ServedEntity
from service.registry.errors import DeploymentNotFound
from service.registry.traffic import Draw, draw_entity


class EntityLoad(NamedTuple):
    """The number of requests for an endpoint that were routed to one of its entities."""

    endpoint: str
    entity: ServedEntity
    num_requests: int


class EndpointTable:
    """Endpoints by name. An endpoint of the settings takes precedence over one that a client created."""

    def __init__(self, *, draw: Draw = random.randrange) -> None:
        self._configured: Mapping[str, Endpoint] = {}
        self._created: Mapping[str, Endpoint] = {}
        self._unreadable: frozenset[str] = frozenset()
        self._draw = draw
        self._num_requests: Counter[tuple[str, str]] = Counter()  # by endpoint and entity

    def configure(self, configured: Iterable[Endpoint]) -> None:
        """Replace the endpoints of the settings."""
        self._configured = {endpoint.name: endpoint for endpoint in configured}
        self._drop_counts()

    def replace_created(self, created: Iterable[Endpoint], unreadable: Collection[str] = ()) -> None:
        """Replace the endpoints that clients created. The names in `unreadable` are taken, but not served here."""
        self._created = {endpoint.name: endpoint for endpoint in created}
        self._unreadable = frozenset(unreadable)
        self._drop_counts()

    def __iter__(self) -> Iterator[Endpoint]:
        """The endpoints in the order of their names."""
        return iter(filter(None, map(self.find, sorted({*self._created, *self._configured}))))

    def find(self, name: str) -> Endpoint | None:
        """Return the endpoint of that name, or None."""
        return self._configured.get(name) or self._created.get(name)

    def is_configured(self, name: str) -> bool:
        """Return whether the settings have an endpoint of that name."""
        return name in self._configured

    def is_taken(self, name: str) -> bool:
        """Return whether an endpoint has that name, readable or not."""
        return name in self._configured or name in self._created or name in self._unreadable

    def choose(self, endpoint: Endpoint, deployment: str, model: str = "") -> ServedEntity:
        """Return and count the entity for the next request: the one named `deployment`, or one drawn by traffic.

        Without a name, an entity of `model` is preferred. Raise DeploymentNotFound.
        """
        entity = self._entity(endpoint, deployment, model)
        self._num_requests[endpoint.name, entity.name] += 1
        return entity

    def loads(self, endpoint: Endpoint) -> Iterator[EntityLoad]:
        """The number of requests routed to each entity of an endpoint since the entity was added."""
        for entity in endpoint.entities:
            yield EntityLoad(endpoint.name, entity, self._num_requests[endpoint.name, entity.name])

    def _entity(self, endpoint: Endpoint, deployment: str, model: str) -> ServedEntity:
        """Return the entity that serves a request: a named one, that of a resumed stream, or a drawn one."""
        if not deployment:
            began = next((entity for entity in endpoint.entities if entity.model == model), None)
            return began or draw_entity(endpoint.entities, self._draw)
        for entity in endpoint.entities:
            if entity.name == deployment:
                return entity
        raise DeploymentNotFound(endpoint.name, deployment)

    def _drop_counts(self) -> None:
        """Drop the counts of entities that no longer exist."""
        present = {
            (each.name, entity.name)
            for each in (*self._created.values(), *self._configured.values())
            for entity in each.entities
        }
        self._num_requests = Counter({key: count for key, count in self._num_requests.items() if key in present})
