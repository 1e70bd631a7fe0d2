"""The interface of the service for routes."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.routes.upstream.bodies import BodyReader
from gateway.routes.upstream.endpoint_lists import EndpointLists
from gateway.routes.upstream.model_choice import ModelChoice
from gateway.settings.config import Settings
from gateway.upstream.client import ServiceClient


@dataclass(frozen=True, slots=True)
class Upstream:
    """The service's client, the choice among its models, and the reader of bodies."""

    client: ServiceClient
    choice: ModelChoice
    bodies: BodyReader

    @classmethod
    def from_client(cls, client: ServiceClient, settings: Settings) -> Upstream:
        """Create an upstream from a client."""
        return cls(client, ModelChoice(EndpointLists(client)), BodyReader(client.require_key, settings))
