"""Tools and tool choices of OpenAI's family. A function's parameters keep the caller's text."""

from __future__ import annotations

from typing import Literal

import msgspec
from sluice.v1 import tool_pb2

from gateway.dialects.seam.json_body import is_given

_MODES = {
    "none": tool_pb2.TOOL_CHOICE_MODE_NONE,
    "auto": tool_pb2.TOOL_CHOICE_MODE_AUTO,
    "required": tool_pb2.TOOL_CHOICE_MODE_REQUIRED,
}


class OfferedFunction(msgspec.Struct, forbid_unknown_fields=True):
    """A function that the model may call. `parameters` is a JSON Schema."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    strict: bool | None = None


class OfferedTool(msgspec.Struct, forbid_unknown_fields=True):
    """A tool that the model may call."""

    type: Literal["function"]
    function: OfferedFunction
    cache_control: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class ChosenFunction(msgspec.Struct, forbid_unknown_fields=True):
    """The function that must be called."""

    name: str


class ChosenTool(msgspec.Struct, forbid_unknown_fields=True):
    """The tool that must be called."""

    type: Literal["function"]
    function: ChosenFunction


ToolChoice = Literal["none", "auto", "required"] | ChosenTool


def to_tool(tool: OfferedTool) -> tool_pb2.Tool:
    """Return the contract's tool."""
    function = tool_pb2.FunctionDefinition(name=tool.function.name, strict=tool.function.strict)
    if tool.function.description is not None:
        function.description = tool.function.description
    if is_given(tool.function.parameters):
        function.parameters = bytes(tool.function.parameters).decode()
    return tool_pb2.Tool(function=function)


def to_tool_choice(choice: ToolChoice) -> tool_pb2.ToolChoice:
    """Return the contract's tool choice."""
    if isinstance(choice, ChosenTool):
        return tool_pb2.ToolChoice(function_name=choice.function.name)
    return tool_pb2.ToolChoice(mode=_MODES[choice])
