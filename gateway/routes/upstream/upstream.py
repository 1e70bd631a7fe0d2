"""The interface of the service for routes."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.routes.upstream.endpoint_lists import EndpointLists
from gateway.routes.upstream.model_choice import ModelChoice
from gateway.upstream.client import ServiceClient


@dataclass(frozen=True, slots=True)
class Upstream:
    """The service's client, and the choice among its models."""

    client: ServiceClient
    choice: ModelChoice

    @classmethod
    def from_client(cls, client: ServiceClient) -> Upstream:
        """Create it from a client."""
        return cls(client, ModelChoice(EndpointLists(client)))
