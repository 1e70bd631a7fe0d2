"""The OpenAPI 3.1 document.

Owns its form: paths, parameters, bodies, answers and errors of all operations. What there is comes from
`operations.py`; the schemas of bodies come from the types that parse them. Built once, when the gateway starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final, Protocol

import msgspec
from google.protobuf.message import Message

from gateway.dialects.seam.arrival import Arrival
from gateway.openapi.limits import add_limits
from gateway.openapi.schema import Schema, to_schemas

_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_EVENT: Final = {  # each event's schema, as OpenAPI 3.1 has it for streams
    "type": "object",
    "properties": {
        "event": {"type": "string"},
        "data": {"type": "string", "description": "The text of a JSON object, or `[DONE]` at the end."},
    },
    "required": ["data"],
}
READ_ERRORS: Final = (400, 401, 403, 404, 405, 500, 503, 504)
BODY_ERRORS: Final = (*READ_ERRORS, 409, 413, 415, 422, 429, 499, 501)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A part of the path, the query or the headers."""

    name: str
    place: str
    description: str
    example: str
    required: bool = False
    schema: Schema = field(default_factory=lambda: {"type": "string"})

    def to_dict(self, bodies: Sequence[Body]) -> dict[str, Any]:
        """As OpenAPI has it. Where bodies need other examples than its own, each has one of the body's name."""
        described: dict[str, Any] = {
            "name": self.name,
            "in": self.place,
            "description": self.description,
            "required": self.required or self.place == "path",
            "schema": self.schema,
        }
        if any(self.name in body.parameters for body in bodies):
            named = {body.kind.__name__: {"value": self.example_with(body)} for body in bodies}
            return described | {"examples": named}
        return described | {"example": self.example}

    def example_with(self, body: Body) -> str:
        """The example that goes with the body's."""
        return body.parameters.get(self.name, self.example)


class Parsed(Protocol):
    """What came of a body: the contract's request, and the way back to the caller's names of its fields."""

    @property
    def request(self) -> Message: ...

    @property
    def caller_name(self) -> Callable[[str], str]: ...


@dataclass(frozen=True, slots=True)
class Body:
    """A kind of body: the type that parses it, one that works, how it is parsed, and what answers it.

    `parameters` are examples that go with this one, where the operation's own don't.
    """

    kind: type[msgspec.Struct]
    example: Mapping[str, Any]
    parse: Callable[[Arrival], Parsed]
    answer: type
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. It has several bodies where their shape decides what is meant, and none where it reads.

    `answer` is what there is without a body.
    """

    method: str
    path: str
    tag: str
    summary: str
    error: type
    bodies: Sequence[Body] = ()
    answer: type | None = None
    streams: bool = False
    parameters: Sequence[Parameter] = ()

    @property
    def id(self) -> str:
        """Unique, for generators of clients."""
        parts = [part.strip("{}").replace("-", "_").replace(".", "_") for part in self.path.split("/") if part]
        return "_".join([self.method.lower(), *parts])

    @property
    def answers(self) -> list[type]:
        """Every kind of answer."""
        return [self.answer] if self.answer is not None else [body.answer for body in self.bodies]

    def arrival(self, body: Body) -> Arrival:
        """The body's example as it arrives."""
        places: dict[str, dict[str, str]] = {"path": {}, "query": {}, "header": {}}
        for each in self.parameters:
            places[each.place][each.name] = each.example_with(body)
        return Arrival(msgspec.json.encode(body.example), places["header"], places["path"], places["query"])


def build_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The whole document."""
    bodies = [(each, body) for each in operations for body in each.bodies]
    types = [body.kind for _, body in bodies] + [kind for each in operations for kind in (*each.answers, each.error)]
    found, schemas = to_schemas(types)
    by_type = dict(zip(types, found, strict=True))
    for each, body in bodies:
        parsed = body.parse(each.arrival(body))
        add_limits(by_type[body.kind], schemas, parsed.request.DESCRIPTOR, parsed.caller_name)
    paths: dict[str, Any] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sluice",
            "version": version("sluice"),
            "summary": "LLM inference in four dialects over one core.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(each: Operation, by_type: Mapping[type, Schema]) -> dict[str, Any]:
    content: dict[str, Any] = {_JSON: {"schema": _any(each.answers, by_type)}}
    if each.streams:
        content[_EVENTS] = {"schema": _EVENT}
    described: dict[str, Any] = {
        "operationId": each.id,
        "tags": [each.tag],
        "summary": each.summary,
        "parameters": [parameter.to_dict(each.bodies) for parameter in each.parameters],
        "responses": {
            "200": {"description": "The answer.", "content": content},
            **{str(status): _error(status, by_type[each.error]) for status in BODY_ERRORS if each.bodies},
            **{str(status): _error(status, by_type[each.error]) for status in READ_ERRORS},
        },
    }
    if each.bodies:
        media: dict[str, Any] = {"schema": _any([body.kind for body in each.bodies], by_type)}
        media["examples"] = {body.kind.__name__: {"value": dict(body.example)} for body in each.bodies}
        described["requestBody"] = {"required": True, "content": {_JSON: media}}
    return described


def _any(types: Sequence[type], by_type: Mapping[type, Schema]) -> Schema:
    schemas = [by_type[each] for each in types]
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _error(status: int, schema: Schema) -> dict[str, Any]:
    phrase = "The caller left." if status == 499 else f"{HTTPStatus(status).phrase}."
    return {"description": phrase, "content": {_JSON: {"schema": schema}}}
