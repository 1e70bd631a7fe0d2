"""One method of one path: its handler and its description."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from gateway.dialects.seam.http_request import HttpRequest
from gateway.routes.handling.by_header import ByHeader
from gateway.routes.handling.handler import Change, Generation, Inquiry, Lookup, Parsed

_CONVERTER: Final = re.compile(r":\w+}")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A part of the path, the query or the headers."""

    name: str
    place: str
    description: str
    example: str
    required: bool = False
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})

    def example_with(self, body: Body) -> str:
        """The example that goes with the body's."""
        return body.parameters.get(self.name, self.example)


@dataclass(frozen=True, slots=True)
class Body:
    """A kind of body: the type that parses it, one that works, and what answers it: whole, and in a stream's events.

    `parameters` are examples that go with this one, where the operation's own don't.
    """

    kind: type[msgspec.Struct]
    example: Mapping[str, Any]
    answer: type
    parameters: Mapping[str, str] = field(default_factory=dict)
    chunk: type | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """It has several bodies where their shape decides what is meant, and none where it reads.

    `route` is the path as Starlette has it: `{name:path}` stands for a name that may have slashes. `answer` is what
    there is without a body. A closed path is its own with every method: no later operation has it for a longer name.
    """

    method: str
    route: str
    summary: str
    handler: Generation | Lookup | Change | Inquiry | ByHeader
    bodies: Sequence[Body] = ()
    answer: type | None = None
    streams: bool = False
    parameters: Sequence[Parameter] = ()
    is_closed: bool = False

    @property
    def path(self) -> str:
        """The path as OpenAPI has it."""
        return _CONVERTER.sub("}", self.route)

    @property
    def id(self) -> str:
        """Unique, for generators of clients."""
        parts = [part.strip("{}").replace("-", "_").replace(".", "_") for part in self.path.split("/") if part]
        return "_".join([self.method.lower(), *parts])

    @property
    def answers(self) -> list[type]:
        """Every kind of answer."""
        own = [self.answer] if self.answer is not None else [body.answer for body in self.bodies]
        return [*own, self.handler.other.answer] if isinstance(self.handler, ByHeader) else own

    @property
    def chunks(self) -> list[type]:
        """Every kind of what a stream's events hold; none where nothing streams."""
        return [body.chunk for body in self.bodies if body.chunk is not None] if self.streams else []

    def errors(self, own: type) -> list[type]:
        """Every kind of error; `own` is the surface's."""
        return [own, self.handler.other.error] if isinstance(self.handler, ByHeader) else [own]

    def parse_example(self, body: Body) -> Parsed:
        """What comes of the body's example."""
        assert not isinstance(self.handler, Lookup | ByHeader)  # noqa: S101  who looks something up sends no body
        places: dict[str, dict[str, str]] = {"path": {}, "query": {}, "header": {}}
        for each in self.parameters:
            places[each.place][each.name] = each.example_with(body)
        http_request = HttpRequest(msgspec.json.encode(body.example), places["header"], places["path"], places["query"])
        return self.handler.parse(http_request)
