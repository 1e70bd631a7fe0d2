"""sluice.v1.EndpointService over the catalogue. Only the loop's thread runs it.

Owns what must hold for an endpoint among the models that are served. It has no rule about who may change one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from google.protobuf import timestamp_pb2
from sluice.v1 import endpoint_pb2, endpoint_pb2_grpc, model_pb2

from service.errors import EndpointExists, EndpointNotFound, EndpointReadOnly
from service.servicers.catalog import Catalog
from service.servicers.traffic import check_shares

_log = logging.getLogger(__name__)


class EndpointServicer(endpoint_pb2_grpc.EndpointServiceServicer):
    """Lists and changes endpoints."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def ListEndpoints(  # noqa: N802
        self,
        request: endpoint_pb2.ListEndpointsRequest,  # noqa: ARG002
        context: object,  # noqa: ARG002
    ) -> endpoint_pb2.ListEndpointsResponse:
        own = {model.name: own_endpoint(model.description) for model in self._catalog}
        endpoints = {endpoint.name: endpoint for endpoint in self._catalog.endpoints} | own
        return endpoint_pb2.ListEndpointsResponse(endpoints=[endpoints[name] for name in sorted(endpoints)])

    async def GetEndpoint(  # noqa: N802
        self,
        request: endpoint_pb2.GetEndpointRequest,
        context: object,  # noqa: ARG002
    ) -> endpoint_pb2.GetEndpointResponse:
        if (model := self._catalog.find(request.name)) is not None:
            return endpoint_pb2.GetEndpointResponse(endpoint=own_endpoint(model.description))
        return endpoint_pb2.GetEndpointResponse(endpoint=self._catalog.endpoints.get(request.name))

    async def CreateEndpoint(  # noqa: N802
        self,
        request: endpoint_pb2.CreateEndpointRequest,
        context: object,  # noqa: ARG002
    ) -> endpoint_pb2.CreateEndpointResponse:
        def make(found: endpoint_pb2.Endpoint | None) -> endpoint_pb2.Endpoint:
            if found is not None:
                raise EndpointExists(request.name)
            return new_endpoint(self._catalog, request.name, request.entities)

        if self._catalog.find(request.name) or self._catalog.endpoints.find(request.name):
            raise EndpointExists(request.name)
        endpoint = await self._catalog.endpoints.change(request.name, make)
        _log.info("endpoint was made", extra={"fields": {"endpoint": request.name}})
        return endpoint_pb2.CreateEndpointResponse(endpoint=endpoint)

    async def UpdateEndpoint(  # noqa: N802
        self,
        request: endpoint_pb2.UpdateEndpointRequest,
        context: object,  # noqa: ARG002
    ) -> endpoint_pb2.UpdateEndpointResponse:
        def make(found: endpoint_pb2.Endpoint | None) -> endpoint_pb2.Endpoint:
            if found is None:
                raise EndpointNotFound(request.name)
            endpoint = new_endpoint(self._catalog, request.name, request.entities)
            endpoint.created.CopyFrom(found.created)
            endpoint.config_version = found.config_version + 1
            return endpoint

        self._check_changeable(request.name)
        endpoint = await self._catalog.endpoints.change(request.name, make)
        _log.info("endpoint was changed", extra={"fields": {"endpoint": request.name}})
        return endpoint_pb2.UpdateEndpointResponse(endpoint=endpoint)

    async def DeleteEndpoint(  # noqa: N802
        self,
        request: endpoint_pb2.DeleteEndpointRequest,
        context: object,  # noqa: ARG002
    ) -> endpoint_pb2.DeleteEndpointResponse:
        def make(found: endpoint_pb2.Endpoint | None) -> None:
            if found is None:
                raise EndpointNotFound(request.name)

        self._check_changeable(request.name)
        await self._catalog.endpoints.change(request.name, make)
        _log.info("endpoint was removed", extra={"fields": {"endpoint": request.name}})
        return endpoint_pb2.DeleteEndpointResponse()

    def _check_changeable(self, name: str) -> None:
        if self._catalog.find(name):
            raise EndpointReadOnly(name, "is a served model's own")


def new_endpoint(catalog: Catalog, name: str, entities: Sequence[endpoint_pb2.ServedEntity]) -> endpoint_pb2.Endpoint:
    """An endpoint made now. Raises ModelNotFound, or InvalidRequest for entities that don't go together."""
    check_shares(entities)
    now = timestamp_pb2.Timestamp()
    now.GetCurrentTime()
    return endpoint_pb2.Endpoint(
        name=name,
        task=catalog.common_task([entity.model for entity in entities]),
        entities=entities,
        created=now,
        updated=now,
        config_version=1,
    )


def own_endpoint(model: model_pb2.Model) -> endpoint_pb2.Endpoint:
    """The endpoint that a served model is by itself."""
    return endpoint_pb2.Endpoint(
        name=model.name,
        task=model.tasks[0],
        entities=[endpoint_pb2.ServedEntity(name=model.name, model=model.name, traffic_percentage=100)],
        created=model.created,
        updated=model.created,
        config_version=1,
        is_model=True,
    )
