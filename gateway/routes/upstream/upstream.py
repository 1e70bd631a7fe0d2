"""The interface of the service for routes."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.routes.upstream.bodies import BodyReader
from gateway.routes.upstream.endpoint_lists import EndpointLists
from gateway.routes.upstream.model_choice import ModelChoice
from gateway.routes.upstream.shared_counts import SharedCounts
from gateway.settings.config import Settings
from gateway.upstream.client import ServiceClient


@dataclass(frozen=True, slots=True)
class Upstream:
    """The service's client, the choice among its models, the reader of bodies, and the sizes that are counted."""

    client: ServiceClient
    choice: ModelChoice
    bodies: BodyReader
    sizes: SharedCounts = field(default_factory=SharedCounts)

    @classmethod
    def from_client(cls, client: ServiceClient, settings: Settings) -> Upstream:
        """Create an upstream from a client."""
        return cls(client, ModelChoice(EndpointLists(client)), BodyReader(client.require_key, settings))
