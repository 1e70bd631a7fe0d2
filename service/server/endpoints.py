"""The endpoints of the settings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from service.generation.caller import ANONYMOUS
from service.generation.errors import InvalidRequest
from service.generation.service_level import ServiceLevel
from service.registry.description import Endpoint, ServedEntity
from service.registry.errors import RegistryError
from service.registry.registry import Registry
from service.server.listener import StartError
from service.settings.endpoint_settings import EndpointSettings


def configured_endpoints(
    registry: Registry, configured: Sequence[EndpointSettings], absent: Collection[str]
) -> Sequence[Endpoint]:
    """Return the endpoints of the settings. Their models must have been loaded, except those in `absent`.

    Raise StartError for an endpoint that can't be served.
    """
    return [_endpoint(registry, endpoint, absent) for endpoint in configured]


def _endpoint(registry: Registry, settings: EndpointSettings, absent: Collection[str]) -> Endpoint:
    """Return an endpoint of the settings. Raise StartError."""
    entities = [ServedEntity(**entity.model_dump()) for entity in settings.entities]
    try:
        endpoint = registry.visible_to(ANONYMOUS).new_endpoint(settings.name, entities, absent)
    except (InvalidRequest, RegistryError) as error:
        raise StartError(f"endpoints: {settings.name}: {error}") from error
    level = ServiceLevel(settings.slo_first_token_seconds, settings.slo_token_seconds)
    return replace(endpoint, service_level=level)
