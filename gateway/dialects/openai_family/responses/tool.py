"""Tools and formats of a response in both accepted forms, and their mapping to the contract.

One form is that of chats, with a nested `function` or `json_schema`; in the other, the fields are next to `type`. An
answer echoes them in the form of the request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

import msgspec
import orjson
from sluice.v1 import sampling_pb2, tool_pb2

from gateway.dialects.openai_family.parameters import custom_tool
from gateway.dialects.openai_family.parameters import response_format as chat_format
from gateway.dialects.openai_family.parameters import tool as chat_tool
from gateway.dialects.openai_family.parameters.response_format import (
    JsonObjectFormat,
    JsonSchemaFormat,
    NamedSchema,
    TextFormat,
)
from gateway.dialects.openai_family.parameters.tool import ChosenFunction, ChosenTool, OfferedFunction, OfferedTool
from gateway.dialects.openai_family.responses.known_tool import (
    KINDS,
    ApplyPatchTool,
    LocalShellTool,
    ShellTool,
    known_tool_answer,
    to_known_tool,
)
from gateway.dialects.openai_family.responses.tool_kind import (
    ClientTool,
    CustomTool,
    FunctionTool,
    NamedTool,
    NamespaceTool,
    Offered,
    ResponseTool,
    name_prefix,
)
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.json_body import is_given

_ONE_LINE: Final = bytes.maketrans(b"\r\n", b"  ")
_DUPLICATE_TEXT: Final = "give its fields inside {0} or next to type, not both"


class SchemaFormat(msgspec.Struct, tag_field="type", tag="json_schema", forbid_unknown_fields=True, kw_only=True):
    """JSON that matches a schema."""

    json_schema: NamedSchema | None = None
    name: str | None = None
    description: str | None = None
    schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    strict: bool | None = None


ToolChoice: TypeAlias = Literal["none", "auto", "required"] | NamedTool
Format: TypeAlias = TextFormat | JsonObjectFormat | SchemaFormat


def to_tool(offered: Offered) -> tool_pb2.Tool:
    """Return the contract's tool. Raise Failure naming its path."""
    path, tool, namespace = offered
    if isinstance(tool, CustomTool):
        named = msgspec.structs.replace(tool, name=name_prefix(namespace) + tool.name)
        converted = custom_tool.to_custom_tool(named, path)
        converted.function.namespace = namespace
        return converted
    if not isinstance(tool, FunctionTool):
        return to_known_tool(tool, path)
    function = tool.function
    if function is None:
        name = _required(tool.name, f"{path}.name")
        function = OfferedFunction(name, tool.description, tool.parameters, tool.strict)
    elif (tool.name, tool.description, tool.strict) != (None, None, None) or is_given(tool.parameters):
        raise Failure.of_field(path, _DUPLICATE_TEXT.format("function"))
    if namespace:
        function = msgspec.structs.replace(function, name=name_prefix(namespace) + function.name)
    converted = chat_tool.to_tool(OfferedTool("function", function))
    converted.function.namespace = namespace
    return converted


def to_tool_choice(choice: ToolChoice) -> tool_pb2.ToolChoice:
    """Return the contract's tool choice. Raise Failure."""
    if not isinstance(choice, NamedTool):
        return chat_tool.to_tool_choice(choice)
    if choice.type == "allowed_tools":
        if choice.mode is None:
            raise Failure.of_field("tool_choice.mode", "required, but missing", Reason.MISSING_FIELD)
        return chat_tool.to_tool_choice(choice.mode)
    if choice.type in KINDS:
        function = ChosenFunction(choice.type)
    elif choice.function is None:
        function = ChosenFunction(_required(choice.name, "tool_choice.name"))
    elif choice.name is not None:
        raise Failure.of_field("tool_choice", _DUPLICATE_TEXT.format("function"))
    else:
        function = choice.function
    return chat_tool.to_tool_choice(ChosenTool("function", function))


def to_constraint(text_format: Format) -> sampling_pb2.OutputConstraint | None:
    """Return the contract's constraint; None for free text. Raise Failure."""
    if not isinstance(text_format, SchemaFormat):
        return chat_format.to_constraint(text_format)
    named, path = text_format.json_schema, "text.format.json_schema"
    if named is None:
        path = "text.format"
        name = _required(text_format.name, f"{path}.name")
        named = NamedSchema(name, text_format.description, text_format.schema, text_format.strict)
    elif (text_format.name, text_format.description, text_format.strict) != (None, None, None) or is_given(
        text_format.schema
    ):
        raise Failure.of_field("text.format", _DUPLICATE_TEXT.format("json_schema"))
    if not is_given(named.schema):
        raise Failure.of_field(f"{path}.schema", "required, but missing", Reason.MISSING_FIELD)
    return chat_format.to_constraint(JsonSchemaFormat(named))


def tools_answer(tools: Iterable[ResponseTool]) -> list[dict[str, Any]]:
    """Return the offered tools for the answer: in the form of the request, with all of that form's fields."""
    answer = []
    for tool in tools:
        match tool:
            case FunctionTool() | CustomTool() | LocalShellTool() | ShellTool() | ApplyPatchTool():
                answer.append(_tool_answer(tool))
            case NamespaceTool():
                functions = [_tool_answer(each) for each in tool.tools]
                named = {"name": tool.name, "description": tool.description}
                answer.append({"type": "namespace", **named, "tools": functions})
    return answer


def tool_choice_answer(choice: ToolChoice | None) -> Any:
    """Return the tool choice for the answer, in the form of the request."""
    if not isinstance(choice, NamedTool):
        return choice or "auto"
    if choice.type == "allowed_tools":
        return {"type": choice.type, "mode": choice.mode, "tools": msgspec.to_builtins(choice.tools)}
    if choice.type in KINDS:
        return {"type": choice.type}
    if choice.function is not None:
        return {"type": choice.type, "function": {"name": choice.function.name}}
    return {"type": choice.type, "name": choice.name}


def format_answer(text_format: Format | None) -> dict[str, Any]:
    """Return the format for the answer: in the form of the request, with all of that form's fields."""
    match text_format:
        case SchemaFormat(json_schema=NamedSchema() as named):
            return {"type": "json_schema", "json_schema": _schema_answer(named)}
        case SchemaFormat():
            return {"type": "json_schema", **_schema_answer(text_format)}
        case JsonObjectFormat():
            return {"type": "json_object"}
        case _:
            return {"type": "text"}


def _tool_answer(tool: ClientTool) -> dict[str, Any]:
    if isinstance(tool, CustomTool):
        named = {"name": tool.name, "description": tool.description}
        return {"type": "custom", **named, "format": custom_tool.format_answer(tool.format)}
    if not isinstance(tool, FunctionTool):
        return known_tool_answer(tool)
    if tool.function is not None:
        return {"type": "function", "function": _function_answer(tool.function)}
    return {"type": "function", **_function_answer(tool)}


def _function_answer(function: OfferedFunction | FunctionTool) -> dict[str, Any]:
    return {
        "name": function.name,
        "description": function.description,
        "parameters": _verbatim(function.parameters),
        "strict": function.strict,
    }


def _schema_answer(named: NamedSchema | SchemaFormat) -> dict[str, Any]:
    return {
        "name": named.name,
        "description": named.description,
        "schema": _verbatim(named.schema),
        "strict": named.strict,
    }


def _verbatim(raw: msgspec.Raw) -> orjson.Fragment | None:
    """Return a value verbatim on one line, as an event's data requires: JSON has line ends between values only."""
    return orjson.Fragment(bytes(raw).translate(_ONE_LINE)) if is_given(raw) else None


def _required(name: str | None, path: str) -> str:
    """Return a name. Raise Failure if it is missing."""
    if name is None:
        raise Failure.of_field(path, "required, but missing", Reason.MISSING_FIELD)
    return name
