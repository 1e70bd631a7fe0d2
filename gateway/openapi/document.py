"""The OpenAPI 3.1 document of all operations. The schemas of bodies are those of the types that parse them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from gateway.dialects.seam.encoder import StreamFormat
from gateway.openapi.headers import HEADERS, header_references
from gateway.openapi.introduction import ABOUT, KEYS
from gateway.openapi.limits import add_limits
from gateway.openapi.schema import Schema, to_schemas
from gateway.routes.examples.stream_example import STREAM_EXAMPLES
from gateway.routes.handling.handler import Generation
from gateway.routes.surface.operation import Body, Operation, Parameter
from gateway.routes.surface.surface import Surface
from process.distribution import installed_version

_JSON: Final = "application/json"
_FORM: Final = "multipart/form-data"
_PHRASES: Final = {499: "Client Closed Request", 529: "Overloaded"}  # of non-standard statuses
READ_ERRORS: Final = (400, 401, 403, 404, 405, 500, 503, 504)
BODY_ERRORS: Final = (*READ_ERRORS, 409, 413, 415, 422, 429, 499, 501)


def build_document(surfaces: Sequence[Surface]) -> dict[str, Any]:
    """Return the document."""
    operations = [each for surface in surfaces for each in surface.operations]
    bodies = [(each, body) for each in operations for body in each.bodies]
    types = [body.kind for _, body in bodies] + [kind for each in operations for kind in each.answers]
    types += [surface.error for surface in surfaces] + [kind for each in operations for kind in each.chunks]
    found, schemas = to_schemas(types)
    by_type = dict(zip(types, found, strict=True))
    for each, body in bodies:
        parsed = each.parse_example(body)
        add_limits(by_type[body.kind], schemas, parsed.request.DESCRIPTOR, parsed.caller_name)
    paths: dict[str, Any] = {}
    for surface in surfaces:
        for each in surface.operations:
            paths.setdefault(each.path, {})[each.method.lower()] = _operation(surface, each, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sluice",
            "version": installed_version(),
            "summary": "LLM inference in the dialects of many vendors over one core.",
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, *({name: []} for name in KEYS)],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "headers": HEADERS,
            "securitySchemes": KEYS,
        },
    }


def _operation(surface: Surface, each: Operation, by_type: Mapping[type, Schema]) -> dict[str, Any]:
    """Return an operation's description."""
    error = _any(each.errors(surface.error), by_type)
    content: dict[str, Any] = {}
    if each.media:
        content[each.media] = {"schema": {"type": "string", "format": "binary"}}
    elif each.answers:
        content[_JSON] = {"schema": _any(each.answers, by_type)}
    if each.streams:
        types = [*dict.fromkeys([*each.chunks, *each.errors(surface.error)])]
        describe = _events if surface.stream_format is StreamFormat.EVENTS else _lines
        content[surface.stream_format.value] = describe(each, types, by_type)
    statuses = (*BODY_ERRORS, *surface.statuses) if each.bodies or each.form else ()
    described: dict[str, Any] = {
        "operationId": each.id,
        "tags": [surface.tag],
        "summary": each.summary,
        "parameters": [_parameter(parameter, each.bodies) for parameter in each.parameters],
        "responses": {
            **({"200": {"description": "The answer.", "content": content}} if content else {}),
            **{str(status): _error(status, error) for status in statuses},
            **{str(status): _error(status, error) for status in READ_ERRORS},
            **({"409": _error(409, error)} if each.method == "DELETE" else {}),
        },
    }
    for status, response in described["responses"].items():
        if headers := header_references(int(status), is_limited=isinstance(each.handler, Generation)):
            response["headers"] = headers
    if each.bodies:
        media: dict[str, Any] = {"schema": _any([body.kind for body in each.bodies], by_type)}
        media["examples"] = {body.kind.__name__: {"value": dict(body.example)} for body in each.bodies}
        is_required = not any(body.is_optional for body in each.bodies)
        described["requestBody"] = {"required": is_required, "content": {_JSON: media}}
    if each.form is not None:
        described["requestBody"] = {"required": True, "content": {_FORM: {"schema": dict(each.form)}}}
    return described


def _events(each: Operation, types: Sequence[type], by_type: Mapping[type, Schema]) -> dict[str, Any]:
    """Return the media type of a stream: the schema of one event, as in OpenAPI 3.2's `itemSchema`, and examples."""
    data = {
        "type": "string",
        "description": "A JSON object as text; in some dialects the last is `[DONE]`. The last object may be an error.",
        "anyOf": [{"contentMediaType": _JSON, "contentSchema": _any(types, by_type)}, {"const": "[DONE]"}],
    }
    event = {
        "type": "object",
        "description": "One event of the stream.",
        "properties": {"event": {"type": "string"}, "id": {"type": "string"}, "data": data},
        "required": ["data"],
    }
    return {"schema": event, "examples": {kind.__name__: {"value": STREAM_EXAMPLES[kind]} for kind in each.chunks}}


def _lines(each: Operation, types: Sequence[type], by_type: Mapping[type, Schema]) -> dict[str, Any]:
    """Return the media type of a stream of lines: the schema of one line, as in OpenAPI 3.2's `itemSchema`."""
    examples = {kind.__name__: {"value": STREAM_EXAMPLES[kind]} for kind in each.chunks}
    return {"schema": _any(types, by_type), "examples": examples}


def _parameter(parameter: Parameter, bodies: Sequence[Body]) -> dict[str, Any]:
    """Return the parameter, with an example for each body if bodies need different ones."""
    described: dict[str, Any] = {
        "name": parameter.name,
        "in": parameter.location,
        "description": parameter.description,
        "required": parameter.required or parameter.location == "path",
        "schema": dict(parameter.schema),
    }
    if any(parameter.name in body.parameters for body in bodies):
        named = {body.kind.__name__: {"value": parameter.example_with(body)} for body in bodies}
        return described | {"examples": named}
    return described | {"example": parameter.example}


def _any(types: Sequence[type], by_type: Mapping[type, Schema]) -> Schema:
    """Return the schema of any of the types."""
    schemas = [by_type[each] for each in types]
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _error(status: int, schema: Schema) -> dict[str, Any]:
    """Return the description of an error response."""
    phrase = _PHRASES.get(status) or HTTPStatus(status).phrase
    return {"description": f"{phrase}.", "content": {_JSON: {"schema": schema}}}
