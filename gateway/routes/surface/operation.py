"""Operations: one method of one path, with its handler and its OpenAPI description."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from gateway.dialects.seam.http_request import HttpRequest
from gateway.routes.handling.by_header import ByHeader
from gateway.routes.handling.handler import (
    Action,
    Change,
    Command,
    Generation,
    Inquiry,
    Lookup,
    LookupOrStream,
    Parsed,
)
from gateway.routes.handling.transfer import Download, Upload

_CONVERTER: Final = re.compile(r":\w+}")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the path, the query or a header, as `location` says."""

    name: str
    location: str
    description: str
    example: str
    required: bool = False
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})

    def example_with(self, body: Body) -> str:
        """Return the example that belongs to the body's example."""
        return body.parameters.get(self.name, self.example)


@dataclass(frozen=True, slots=True)
class Body:
    """A kind of request body: its type, an example, and the types of its whole answer and of its stream's events.

    `parameters` are the examples of parameters that belong to this example, if the operation's own don't. One that
    `is_optional` may be left out.
    """

    kind: type[msgspec.Struct]
    example: Mapping[str, Any]
    answer: type
    parameters: Mapping[str, str] = field(default_factory=dict)
    chunk: type | None = None
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. It has several bodies if their fields select the task, and none if it only reads.

    `route` is the path in Starlette's form: `{name:path}` is a name that may contain slashes. `answer` is the type of
    the answer to a request without a body. A closed path matches with every method, so that no later operation with a
    longer name gets its requests. For requests with the header `unmarked_by`, which are another dialect's, the path
    does not exist. `form` is the schema of a body with a file, and `media` the type of an answer that is the content of
    one.
    """

    method: str
    route: str
    summary: str
    handler: Generation | Lookup | LookupOrStream | Action | Change | Command | Inquiry | ByHeader | Upload | Download
    bodies: Sequence[Body] = ()
    answer: type | None = None
    streams: bool = False
    parameters: Sequence[Parameter] = ()
    is_closed: bool = False
    unmarked_by: str = ""
    form: Mapping[str, Any] | None = None
    media: str = ""

    @property
    def path(self) -> str:
        """The path in OpenAPI's form."""
        return _CONVERTER.sub("}", self.route)

    @property
    def id(self) -> str:
        """The unique operation id, used by client generators."""
        parts = [part.strip("{}").replace("-", "_").replace(".", "_") for part in self.path.split("/") if part]
        return "_".join([self.method.lower(), *parts])

    @property
    def answers(self) -> list[type]:
        """The types of all answers."""
        types = [self.answer] if self.answer is not None else [body.answer for body in self.bodies]
        return [*types, self.handler.other.answer] if isinstance(self.handler, ByHeader) else types

    @property
    def chunks(self) -> list[type]:
        """The types of the data of a stream's events; empty if the operation doesn't stream."""
        return [body.chunk for body in self.bodies if body.chunk is not None] if self.streams else []

    def errors(self, surface_error: type) -> list[type]:
        """Return the types of all errors; `surface_error` is the surface's."""
        return [surface_error, self.handler.other.error] if isinstance(self.handler, ByHeader) else [surface_error]

    def parse_example(self, body: Body) -> Parsed:
        """Return the parsed example of the body."""
        assert isinstance(self.handler, Generation | Change | Command | Inquiry)  # noqa: S101  others have no body
        values: dict[str, dict[str, str]] = {"path": {}, "query": {}, "header": {}}
        for each in self.parameters:
            values[each.location][each.name] = each.example_with(body)
        http_request = HttpRequest(msgspec.json.encode(body.example), values["header"], values["path"], values["query"])
        return self.handler.parse(http_request)
