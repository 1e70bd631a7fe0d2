"""The routes of Databricks' REST API that list, create, change and delete endpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from google.protobuf.message import Message

from gateway.dialects.databricks.answer import DatabricksError, EndpointAnswer, EndpointsAnswer, NothingAnswer
from gateway.dialects.databricks.endpoint import DELETED, to_endpoint, to_endpoint_list
from gateway.dialects.databricks.endpoint_body import ConfigBody, EndpointBody, expected_version
from gateway.dialects.databricks.error import DatabricksErrors
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode
from gateway.routes.examples.example import ENDPOINT_NAME, MODEL
from gateway.routes.handling.handler import Change, Lookup
from gateway.routes.surface.operation import Body, Operation, Parameter
from gateway.routes.surface.surface import Surface
from gateway.routes.upstream.upstream import Upstream
from gateway.upstream.caller import Caller

_ROOT: Final = "/api/2.0/serving-endpoints"
_ONE: Final = f"{_ROOT}/{{name:path}}"  # a model's own endpoint may have slashes in its name
_PROVISIONED: Final = f"{_ROOT}/pt"  # provisioned throughput; the only kind of endpoint here
_CREATE: Final = msgspec.json.Decoder(EndpointBody)
_CONFIG: Final = msgspec.json.Decoder(ConfigBody)
_CREATED_NAME: Final = Parameter("name", "path", "The name of an endpoint that was created.", "ab-test")
_IF_MATCH: Final = Parameter(
    "if-match", "header", "The config_version that is to be changed, in quotes; another one is left as it is: 409.", "*"
)

_CONFIG_EXAMPLE: Final[dict[str, Any]] = {
    "served_entities": [{"name": name, "entity_name": MODEL, "entity_version": "1"} for name in ("a", "b")],
    "traffic_config": {
        "routes": [
            {"served_model_name": "a", "traffic_percentage": 10},
            {"served_model_name": "b", "traffic_percentage": 90},
        ]
    },
}
_NEW_BODY: Final = Body(EndpointBody, {"name": "ab-test", "config": _CONFIG_EXAMPLE}, EndpointAnswer)
_CONFIG_BODY: Final = Body(ConfigBody, _CONFIG_EXAMPLE, EndpointAnswer)


@dataclass(frozen=True, slots=True)
class _ParsedChange:
    """A change of an endpoint, and the function that renames the contract's fields to the body's."""

    request: Message
    caller_name: Callable[[str], str]


def _parse_new(http_request: HttpRequest) -> _ParsedChange:
    """Parse a request to create an endpoint. Raise Failure."""
    body = decode(http_request.body, _CREATE)
    return _ParsedChange(body.to_create(), body.caller_name)


def _parse_config(http_request: HttpRequest) -> _ParsedChange:
    """Parse a request to update an endpoint. Raise Failure."""
    body = decode(http_request.body, _CONFIG)
    request = body.to_update(http_request.path["name"])
    if (version := expected_version(http_request.headers)) is not None:
        request.config_version = version
    return _ParsedChange(request, body.caller_name)


def _serialize(answer: Any) -> bytes:
    return to_endpoint(answer.endpoint)


async def _list(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:  # noqa: ARG001  a lookup's signature
    return to_endpoint_list(await upstream.client.list_endpoints(caller))


async def _get(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    return to_endpoint(await upstream.client.get_endpoint(http_request.path["name"], caller))


async def _delete(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    await upstream.client.delete_endpoint(http_request.path["name"], caller, expected_version(http_request.headers))
    return DELETED


def _create(route: str) -> Operation:
    return Operation("POST", route, "Creates an endpoint.", Change(_parse_new, _serialize), [_NEW_BODY])


def _update(route: str) -> Operation:
    return Operation(
        "PUT", route, "Updates the models of an endpoint.", Change(_parse_config, _serialize), [_CONFIG_BODY],
        parameters=[_CREATED_NAME, _IF_MATCH], is_closed=True,
    )  # fmt: skip


SERVING_ENDPOINTS: Final = Surface(
    tag="Databricks",
    error=DatabricksError,
    error_response=DatabricksErrors().error_response,
    prefixes=("/api/2.0",),
    operations=(
        Operation("GET", _ROOT, "Lists the endpoints.", Lookup(_list), answer=EndpointsAnswer),
        _create(_ROOT),
        _create(_PROVISIONED),
        _update(f"{_PROVISIONED}/{{name}}/config"),
        _update(f"{_ONE}/config"),
        Operation(
            "GET", _ONE, "Describes an endpoint.", Lookup(_get), answer=EndpointAnswer, parameters=[ENDPOINT_NAME]
        ),
        Operation("DELETE", _ONE, "Deletes an endpoint.", Lookup(_delete), answer=NothingAnswer,
                  parameters=[_CREATED_NAME, _IF_MATCH]),
    ),
)  # fmt: skip
