"""The tools of a chat in the OpenAI style: functions and custom tools, and the choice among them.

Where a choice allows some tools only, the model is offered no others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from sluice.v1 import tool_pb2

from gateway.dialects.openai_family.parameters import tool as family
from gateway.dialects.openai_family.parameters.custom_tool import (
    CustomDefinition,
    custom_tool_field,
    to_custom_tool,
)
from gateway.dialects.openai_family.parameters.tool import ChosenFunction, OfferedFunction, OfferedTool
from gateway.dialects.seam.failure import Failure

_TOOL: Final = re.compile(r"^tools\.(\d+)\.function(?:\.(.*))?$")


class FunctionTool(msgspec.Struct, tag_field="type", tag="function", forbid_unknown_fields=True):
    """A function that the model may call."""

    function: OfferedFunction
    cache_control: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class CustomTool(msgspec.Struct, tag_field="type", tag="custom", forbid_unknown_fields=True):
    """A tool whose input is free text."""

    custom: CustomDefinition
    cache_control: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class ChosenFunctionTool(msgspec.Struct, tag_field="type", tag="function", forbid_unknown_fields=True):
    """The function that must be called."""

    function: ChosenFunction


class ChosenCustomTool(msgspec.Struct, tag_field="type", tag="custom", forbid_unknown_fields=True):
    """The custom tool that must be called."""

    custom: ChosenFunction


class AllowedTools(msgspec.Struct, forbid_unknown_fields=True):
    """The tools that may be called, and whether one of them must be."""

    mode: Literal["auto", "required"]
    tools: list[ChosenFunctionTool | ChosenCustomTool]


class AllowedToolsChoice(msgspec.Struct, tag_field="type", tag="allowed_tools", forbid_unknown_fields=True):
    """A choice among some of the tools."""

    allowed_tools: AllowedTools


ChatTool: TypeAlias = FunctionTool | CustomTool
ChatToolChoice: TypeAlias = (
    Literal["none", "auto", "required"] | ChosenFunctionTool | ChosenCustomTool | AllowedToolsChoice
)


def to_tools(tools: Sequence[ChatTool], choice: ChatToolChoice | None) -> list[tool_pb2.Tool]:
    """Return the tools that the model is offered. Raise Failure."""
    return [_to_tool(tools[index], f"tools.{index}") for index in _offered(tools, choice)]


def to_tool_choice(choice: ChatToolChoice) -> tool_pb2.ToolChoice:
    """Return the contract's tool choice."""
    match choice:
        case AllowedToolsChoice(allowed_tools=allowed):
            return family.to_tool_choice(allowed.mode)
        case ChosenFunctionTool() | ChosenCustomTool():
            return tool_pb2.ToolChoice(function_name=_chosen_name(choice))
        case _:
            return family.to_tool_choice(choice)


def tool_field(tools: Sequence[ChatTool], choice: ChatToolChoice | None, path: str) -> str | None:
    """Return the caller's name of a field of tools or of their choice; None for others."""
    if path == "tool_choice.function_name" and isinstance(choice, ChosenCustomTool):
        return "tool_choice.custom.name"
    match = _TOOL.match(path)
    if match is None or not tools:
        return None
    index = _offered(tools, choice)[int(match[1])]
    tool, inner, field = tools[index], "function", match[2] or ""
    if isinstance(tool, CustomTool):
        inner, field = "custom", custom_tool_field(tool.custom, field)
    return ".".join(part for part in (f"tools.{index}", inner, field) if part)


def custom_names(tools: Sequence[ChatTool]) -> frozenset[str]:
    """Return the names of the custom tools."""
    return frozenset(tool.custom.name for tool in tools if isinstance(tool, CustomTool))


def _offered(tools: Sequence[ChatTool], choice: ChatToolChoice | None) -> list[int]:
    """Return the indices of the tools that the model is offered. Raise Failure for an allowed tool that is missing."""
    if not isinstance(choice, AllowedToolsChoice):
        return list(range(len(tools)))
    names = [_name(tool) for tool in tools]
    allowed = [_chosen_name(each) for each in choice.allowed_tools.tools]
    for index, name in enumerate(allowed):
        if name not in names:
            field = f"tool_choice.allowed_tools.tools.{index}"
            raise Failure.of_field(field, f"{name!r} is not the name of a tool in tools")
    return [index for index, name in enumerate(names) if name in allowed]


def _to_tool(tool: ChatTool, path: str) -> tool_pb2.Tool:
    if isinstance(tool, CustomTool):
        return to_custom_tool(tool.custom, f"{path}.custom")
    return family.to_tool(OfferedTool("function", tool.function))


def _name(tool: ChatTool) -> str:
    return tool.custom.name if isinstance(tool, CustomTool) else tool.function.name


def _chosen_name(chosen: ChosenFunctionTool | ChosenCustomTool) -> str:
    return chosen.custom.name if isinstance(chosen, ChosenCustomTool) else chosen.function.name
