"""sluice.v1.EndpointService. `service.interceptors.auth` decides who may change endpoints."""

from __future__ import annotations

import logging
from dataclasses import replace

from sluice.v1 import endpoint_pb2, endpoint_pb2_grpc

from service.call import current_caller
from service.contract.model import endpoint_message, to_entities
from service.registry.description import Endpoint
from service.registry.errors import EndpointChanged, EndpointExists, EndpointNotAllowed, EndpointReadOnly
from service.registry.models import Registry

_log = logging.getLogger(__name__)


class EndpointServicer(endpoint_pb2_grpc.EndpointServiceServicer):
    """Lists and changes endpoints."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def ListEndpoints(  # noqa: N802
        self,
        request: endpoint_pb2.ListEndpointsRequest,  # noqa: ARG002
        context: object,  # noqa: ARG002
    ) -> endpoint_pb2.ListEndpointsResponse:
        own = {model.name: Endpoint.of_model(model.description) for model in self._registry}
        endpoints = {endpoint.name: endpoint for endpoint in self._registry.endpoints} | own
        messages = [endpoint_message(endpoints[name]) for name in sorted(endpoints)]
        return endpoint_pb2.ListEndpointsResponse(endpoints=messages)

    async def GetEndpoint(  # noqa: N802
        self,
        request: endpoint_pb2.GetEndpointRequest,
        context: object,  # noqa: ARG002
    ) -> endpoint_pb2.GetEndpointResponse:
        if (model := self._registry.find(request.name)) is not None:
            endpoint = Endpoint.of_model(model.description)
        else:
            endpoint = self._registry.endpoints.get(request.name)
        return endpoint_pb2.GetEndpointResponse(endpoint=endpoint_message(endpoint))

    async def CreateEndpoint(  # noqa: N802
        self,
        request: endpoint_pb2.CreateEndpointRequest,
        context: object,  # noqa: ARG002
    ) -> endpoint_pb2.CreateEndpointResponse:
        entities = to_entities(request.entities)

        self._check_free(request.name)
        endpoint = await self._registry.endpoints.add(
            request.name, lambda: self._registry.new_endpoint(request.name, entities)
        )
        _log.info("endpoint was made", extra={"fields": {"endpoint": request.name}})
        return endpoint_pb2.CreateEndpointResponse(endpoint=endpoint_message(endpoint))

    async def UpdateEndpoint(  # noqa: N802
        self,
        request: endpoint_pb2.UpdateEndpointRequest,
        context: object,  # noqa: ARG002
    ) -> endpoint_pb2.UpdateEndpointResponse:
        entities = to_entities(request.entities)

        def make(found: Endpoint) -> Endpoint:
            _check_version(found, request)
            endpoint = self._registry.new_endpoint(request.name, entities)
            return replace(endpoint, created_ns=found.created_ns, config_version=found.config_version + 1)

        self._check_changeable(request.name)
        endpoint = await self._registry.endpoints.change(request.name, make)
        _log.info("endpoint was changed", extra={"fields": {"endpoint": request.name}})
        return endpoint_pb2.UpdateEndpointResponse(endpoint=endpoint_message(endpoint))

    async def DeleteEndpoint(  # noqa: N802
        self,
        request: endpoint_pb2.DeleteEndpointRequest,
        context: object,  # noqa: ARG002
    ) -> endpoint_pb2.DeleteEndpointResponse:
        self._check_changeable(request.name)
        await self._registry.endpoints.remove(request.name, lambda found: _check_version(found, request))
        _log.info("endpoint was removed", extra={"fields": {"endpoint": request.name}})
        return endpoint_pb2.DeleteEndpointResponse()

    def _check_free(self, name: str) -> None:
        if not current_caller().may_reach(name, ()):
            raise EndpointNotAllowed(name)
        if self._registry.is_taken(name):
            raise EndpointExists(name)

    def _check_changeable(self, name: str) -> None:
        if self._registry.find(name):
            raise EndpointReadOnly(name, "is a served model's own")


def _check_version(
    found: Endpoint, request: endpoint_pb2.UpdateEndpointRequest | endpoint_pb2.DeleteEndpointRequest
) -> None:
    """Raise EndpointChanged if the request names a version, and the endpoint has another."""
    if request.HasField("config_version") and request.config_version != found.config_version:
        raise EndpointChanged(found.name, found.config_version, request.config_version)
