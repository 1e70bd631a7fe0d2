"""The routes of Databricks' REST API that list, make, change and remove endpoints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from sluice.v1.endpoint_pb2 import Endpoint
from starlette.routing import Route

from gateway.client import Caller, ServiceClient
from gateway.config import Settings
from gateway.dialects.databricks.endpoint import DELETED, to_endpoint, to_endpoint_list
from gateway.dialects.databricks.endpoint_body import ConfigBody, EndpointBody
from gateway.dialects.databricks.error import DatabricksErrors
from gateway.dialects.seam.arrival import Arrival
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.json_body import decode
from gateway.routes.lookup_endpoint import Lookup, LookupEndpoint
from gateway.routes.surface import ClosedRoute, Surface

_ROOT: Final = "/api/2.0/serving-endpoints"
_ONE: Final = f"{_ROOT}/{{name:path}}"  # a model's own endpoint may have slashes in its name
_CREATE: Final = msgspec.json.Decoder(EndpointBody)
_CONFIG: Final = msgspec.json.Decoder(ConfigBody)


def serving_endpoint_surface(client: ServiceClient, settings: Settings) -> Surface:
    """Everything under /api/2.0. The paths with `pt` are those of provisioned throughput, which is all there is."""
    refuse = DatabricksErrors().refuse

    async def list_all(arrival: Arrival, caller: Caller) -> bytes:  # noqa: ARG001  a lookup's signature
        return to_endpoint_list(await client.list_endpoints(caller))

    async def get(arrival: Arrival, caller: Caller) -> bytes:
        return to_endpoint(await client.get_endpoint(arrival.path["name"], caller))

    async def create(arrival: Arrival, caller: Caller) -> bytes:
        body = decode(arrival.body, _CREATE)
        return to_endpoint(await _named(client.create_endpoint(body.to_create(), caller), body.caller_name))

    async def update(arrival: Arrival, caller: Caller) -> bytes:
        body = decode(arrival.body, _CONFIG)
        request = body.to_update(arrival.path["name"])
        return to_endpoint(await _named(client.update_endpoint(request, caller), body.caller_name))

    async def delete(arrival: Arrival, caller: Caller) -> bytes:
        await client.delete_endpoint(arrival.path["name"], caller)
        return DELETED

    def route(method: str, path: str, answer: Lookup) -> Route:
        kind = ClosedRoute if path.endswith("/config") else Route
        return kind(path, LookupEndpoint(answer, refuse, settings), methods=[method])

    routes = [
        route("GET", _ROOT, list_all),
        route("POST", _ROOT, create),
        route("POST", f"{_ROOT}/pt", create),
        route("PUT", f"{_ROOT}/pt/{{name}}/config", update),
        route("PUT", f"{_ONE}/config", update),
        route("GET", _ONE, get),
        route("DELETE", _ONE, delete),
    ]
    return Surface(routes, ("/api/2.0",), refuse)


async def _named(answer: Awaitable[Endpoint], caller_name: Callable[[str], str]) -> Endpoint:
    """The answer; a failure has the caller's field names."""
    try:
        return await answer
    except Failure as failure:
        raise failure.renamed(caller_name) from None
