"""sluice.v1.EndpointService. `service.interceptors.auth` decides who may change endpoints."""

from __future__ import annotations

import logging
from dataclasses import replace

from sluice.v1 import endpoint_pb2, endpoint_pb2_grpc

from service.calls.call import current_caller
from service.contract.models.model import endpoint_message, to_entities, to_service_level
from service.contract.parts.page import page_of
from service.deployment.endpoint_changes import EndpointChanges
from service.generation.caller import Caller
from service.registry.description import Endpoint
from service.registry.errors import EndpointChanged, EndpointExists, EndpointNotAllowed, EndpointReadOnly
from service.registry.registry import Registry

_log = logging.getLogger(__name__)


class EndpointServicer(endpoint_pb2_grpc.EndpointServiceServicer):
    """Lists and changes endpoints."""

    def __init__(self, registry: Registry, changes: EndpointChanges) -> None:
        self._registry = registry
        self._changes = changes

    async def ListEndpoints(  # noqa: N802
        self,
        request: endpoint_pb2.ListEndpointsRequest,
        context: object,  # noqa: ARG002
    ) -> endpoint_pb2.ListEndpointsResponse:
        visible = self._registry.visible_to(current_caller())
        model_endpoints = {model.name: Endpoint.of_model(model.description) for model in visible}
        endpoints = {endpoint.name: endpoint for endpoint in visible.endpoints()} | model_endpoints
        names, token = page_of(sorted(endpoints), str, request, "endpoints")
        messages = [endpoint_message(endpoints[name]) for name in names]
        return endpoint_pb2.ListEndpointsResponse(endpoints=messages, next_page_token=token)

    async def GetEndpoint(  # noqa: N802
        self,
        request: endpoint_pb2.GetEndpointRequest,
        context: object,  # noqa: ARG002
    ) -> endpoint_pb2.GetEndpointResponse:
        visible = self._registry.visible_to(current_caller())
        if (model := visible.find(request.name)) is not None:
            endpoint = Endpoint.of_model(model.description)
        else:
            endpoint = visible.endpoint(request.name)
        return endpoint_pb2.GetEndpointResponse(endpoint=endpoint_message(endpoint))

    async def CreateEndpoint(  # noqa: N802
        self,
        request: endpoint_pb2.CreateEndpointRequest,
        context: object,  # noqa: ARG002
    ) -> endpoint_pb2.CreateEndpointResponse:
        entities = to_entities(request.entities)
        caller = current_caller()
        self._check_free(request.name, caller)
        visible = self._registry.visible_to(caller)
        level = to_service_level(request.service_level)
        endpoint = await self._changes.add(
            request.name, lambda: replace(visible.new_endpoint(request.name, entities), service_level=level)
        )
        _log.info("endpoint was created", extra={"fields": {"endpoint": request.name}})
        return endpoint_pb2.CreateEndpointResponse(endpoint=endpoint_message(endpoint))

    async def UpdateEndpoint(  # noqa: N802
        self,
        request: endpoint_pb2.UpdateEndpointRequest,
        context: object,  # noqa: ARG002
    ) -> endpoint_pb2.UpdateEndpointResponse:
        entities = to_entities(request.entities)
        caller = current_caller()
        visible = self._registry.visible_to(caller)

        def updated(found: Endpoint) -> Endpoint:
            _check_version(found, request)
            endpoint = visible.new_endpoint(request.name, entities)
            has_level = request.HasField("service_level")
            level = to_service_level(request.service_level) if has_level else found.service_level
            version = found.config_version + 1
            return replace(endpoint, created_ns=found.created_ns, config_version=version, service_level=level)

        self._check_changeable(request.name, caller)
        endpoint = await self._changes.change(request.name, caller, updated)
        _log.info("endpoint was changed", extra={"fields": {"endpoint": request.name}})
        return endpoint_pb2.UpdateEndpointResponse(endpoint=endpoint_message(endpoint))

    async def DeleteEndpoint(  # noqa: N802
        self,
        request: endpoint_pb2.DeleteEndpointRequest,
        context: object,  # noqa: ARG002
    ) -> endpoint_pb2.DeleteEndpointResponse:
        caller = current_caller()
        self._check_changeable(request.name, caller)
        await self._changes.remove(request.name, caller, lambda found: _check_version(found, request))
        _log.info("endpoint was removed", extra={"fields": {"endpoint": request.name}})
        return endpoint_pb2.DeleteEndpointResponse()

    def _check_free(self, name: str, caller: Caller) -> None:
        """Raise EndpointNotAllowed or EndpointExists unless the caller may create the name."""
        if not caller.may_reach(name, ()):
            raise EndpointNotAllowed(name)
        if self._registry.is_taken(name):
            raise EndpointExists(name)

    def _check_changeable(self, name: str, caller: Caller) -> None:
        """Raise EndpointReadOnly if the name belongs to a model."""
        if self._registry.visible_to(caller).find(name):
            raise EndpointReadOnly(name, "belongs to a served model")


def _check_version(
    found: Endpoint, request: endpoint_pb2.UpdateEndpointRequest | endpoint_pb2.DeleteEndpointRequest
) -> None:
    """Raise EndpointChanged if the request names a version, and the endpoint has another."""
    if request.HasField("config_version") and request.config_version != found.config_version:
        raise EndpointChanged(found.name, found.config_version, request.config_version)
