"""Custom tools, whose input is free text: functions with one parameter, the text `input`, in the contract.

A regular expression constrains the text. A Lark grammar, which can't be enforced within a call, is part of the
description.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec
import orjson
from sluice.v1 import tool_pb2

from gateway.dialects.openai_family.parameters.custom_input import INPUT
from gateway.dialects.seam.failure import Failure, Reason

_LARK_HINT: Final = "The input must match this Lark grammar:"
_TWICE: Final = "give its fields inside grammar or next to type, not both"


class TextFormat(msgspec.Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    """Free text."""


class Grammar(msgspec.Struct, forbid_unknown_fields=True):
    """A grammar of the input."""

    syntax: Literal["lark", "regex"]
    definition: str


class GrammarFormat(msgspec.Struct, tag_field="type", tag="grammar", forbid_unknown_fields=True, kw_only=True):
    """Text that matches a grammar, whose fields are inside `grammar` in chats and next to `type` in responses."""

    grammar: Grammar | None = None
    syntax: Literal["lark", "regex"] | None = None
    definition: str | None = None


InputFormat: TypeAlias = TextFormat | GrammarFormat


class CustomDefinition(msgspec.Struct, forbid_unknown_fields=True):
    """The name and the input format of a custom tool."""

    name: str
    description: str | None = None
    format: InputFormat | None = None


def to_custom_tool(tool: CustomDefinition, path: str) -> tool_pb2.Tool:
    """Return the contract's tool. Raise Failure naming the format's field below `path`."""
    schema: dict[str, Any] = {"type": "string"}
    description = tool.description or ""
    grammar = _grammar(tool.format, f"{path}.format") if isinstance(tool.format, GrammarFormat) else None
    if grammar is not None and grammar.syntax == "regex":
        schema["pattern"] = f"^(?:{grammar.definition})$"
    elif grammar is not None:
        description = "\n\n".join(filter(None, (description, _LARK_HINT, grammar.definition)))
    function = tool_pb2.FunctionDefinition(
        name=tool.name, description=description, parameters=_parameters(schema), custom=True
    )
    if "pattern" in schema:
        function.strict = True
    return tool_pb2.Tool(function=function)


def custom_tool_field(tool: CustomDefinition, field: str) -> str:
    """Return the caller's name of a field of the tool's function: `parameters` → `format.definition`."""
    name, _, _ = field.partition(".")
    if name not in {"parameters", "strict"}:
        return field
    inner = isinstance(tool.format, GrammarFormat) and tool.format.grammar is not None
    return "format.grammar.definition" if inner else "format.definition"


def format_answer(given: InputFormat | None) -> Mapping[str, Any]:
    """Return the format for the answer, in the form of the request."""
    match given:
        case GrammarFormat(grammar=Grammar() as grammar):
            return {"type": "grammar", "grammar": {"syntax": grammar.syntax, "definition": grammar.definition}}
        case GrammarFormat():
            return {"type": "grammar", "syntax": given.syntax, "definition": given.definition}
        case _:
            return {"type": "text"}


def _grammar(given: GrammarFormat, path: str) -> Grammar:
    """Return the grammar of either form. Raise Failure."""
    if given.grammar is not None:
        if (given.syntax, given.definition) != (None, None):
            raise Failure.of_field(path, _TWICE)
        return given.grammar
    for name in ("syntax", "definition"):
        if getattr(given, name) is None:
            raise Failure.of_field(f"{path}.{name}", "required, but missing", Reason.MISSING_FIELD)
    return Grammar(given.syntax or "lark", given.definition or "")


def _parameters(schema: Mapping[str, Any]) -> str:
    """Return the schema of the one parameter."""
    parameters = {
        "type": "object",
        "properties": {INPUT: schema},
        "required": [INPUT],
        "additionalProperties": False,
    }
    return orjson.dumps(parameters).decode()
