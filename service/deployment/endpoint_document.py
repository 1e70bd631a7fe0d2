"""The endpoints that clients created, as a document that replicas of different versions share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from service.registry.description import Endpoint


@dataclass(frozen=True, slots=True)
class UnreadableEndpoint:
    """An entry that this version can't read, written by a newer one. It is kept as it is."""

    name: str  # empty if the entry has none
    entry: Any  # JSON
    reason: str


@dataclass(frozen=True, slots=True)
class NewerEndpoint:
    """An entry with fields that this version doesn't know."""

    endpoint: Endpoint  # as far as this version reads it
    entry: Mapping[str, Any]  # JSON


@dataclass(frozen=True, slots=True)
class EndpointDocument:
    """Endpoints by name, with everything in the text that this version doesn't know."""

    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    unreadable: tuple[UnreadableEndpoint, ...] = ()
    newer: Mapping[str, NewerEndpoint] = field(default_factory=dict)  # the entries with unknown fields, by name
    unknown: Mapping[str, Any] = field(default_factory=dict)  # unknown fields of the document

    @property
    def unreadable_names(self) -> frozenset[str]:
        """The names of the entries that this version can't read."""
        return frozenset(each.name for each in self.unreadable if each.name)

    def with_endpoint(self, endpoint: Endpoint) -> EndpointDocument:
        """Return the document with an endpoint added or replaced."""
        return replace(self, endpoints={**self._without(endpoint.name), endpoint.name: endpoint})

    def without_endpoint(self, name: str) -> EndpointDocument:
        """Return the document without the endpoint of that name."""
        newer = {other: each for other, each in self.newer.items() if other != name}
        return replace(self, endpoints=self._without(name), newer=newer)

    def _without(self, name: str) -> Mapping[str, Endpoint]:
        return {other: each for other, each in self.endpoints.items() if other != name}
