"""The OpenAPI 3.1 document.

Owns its form: paths, parameters, bodies, answers and errors of all operations. What there is comes from
`operations.py`; the schemas of bodies come from the types that parse them. Built once, when the gateway starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final

import msgspec

from gateway.dialects.call import Arrival, Translator
from gateway.openapi.limits import add_limits
from gateway.openapi.schema import Schema, to_schemas

_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
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

    def to_dict(self) -> dict[str, Any]:
        """As OpenAPI has it."""
        return {
            "name": self.name,
            "in": self.place,
            "description": self.description,
            "required": self.required or self.place == "path",
            "schema": self.schema,
            "example": self.example,
        }


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. `example` is a body that the operation answers; `body` is the type that parses it."""

    method: str
    path: str
    tag: str
    summary: str
    answer: type
    error: type
    body: type[msgspec.Struct] | None = None
    example: Mapping[str, Any] | None = None
    translator: Callable[[], Translator] | None = None
    streams: bool = False
    parameters: Sequence[Parameter] = ()

    @property
    def id(self) -> str:
        """Unique, for generators of clients."""
        parts = [part.strip("{}").replace("-", "_").replace(".", "_") for part in self.path.split("/") if part]
        return "_".join([self.method.lower(), *parts])

    @property
    def statuses(self) -> tuple[int, ...]:
        """The errors that it may answer with."""
        return BODY_ERRORS if self.body is not None else READ_ERRORS

    def arrival(self) -> Arrival:
        """The example as it arrives."""
        values = {place: {p.name: p.example for p in self.parameters if p.place == place} for place in _PLACES}
        headers = {name.lower(): value for name, value in values["header"].items()}
        return Arrival(msgspec.json.encode(self.example), headers, values["path"], values["query"])


_PLACES: Final = ("path", "query", "header")


def build_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The whole document."""
    types = [kind for each in operations for kind in (each.body, each.answer, each.error) if kind is not None]
    found, schemas = to_schemas(types)
    by_type = dict(zip(types, found, strict=True))
    paths: dict[str, Any] = {}
    for each in operations:
        if each.translator is not None and each.body is not None:
            call = each.translator().parse(each.arrival())
            add_limits(by_type[each.body], schemas, call.request.DESCRIPTOR, call.caller_name)
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
    content: dict[str, Any] = {_JSON: {"schema": by_type[each.answer]}}
    if each.streams:
        content[_EVENTS] = {"schema": {"type": "string", "description": "Events, one JSON object in each."}}
    described: dict[str, Any] = {
        "operationId": each.id,
        "tags": [each.tag],
        "summary": each.summary,
        "parameters": [parameter.to_dict() for parameter in each.parameters],
        "responses": {
            "200": {"description": "The answer.", "content": content},
            **{str(status): _error(status, by_type[each.error]) for status in sorted(each.statuses)},
        },
    }
    if each.body is not None:
        media = {"schema": by_type[each.body], "example": dict(each.example or {})}
        described["requestBody"] = {"required": True, "content": {_JSON: media}}
    return described


def _error(status: int, schema: Schema) -> dict[str, Any]:
    phrase = "The caller left." if status == 499 else f"{HTTPStatus(status).phrase}."
    return {"description": phrase, "content": {_JSON: {"schema": schema}}}
