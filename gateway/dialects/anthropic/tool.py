"""Tools and tool choices of Anthropic's messages. A tool's schema keeps the caller's text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec
from sluice.v1 import tool_pb2

from gateway.dialects.anthropic.known_tool import is_known, is_servers, known_function
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.json_body import is_given


class Tool(msgspec.Struct, forbid_unknown_fields=True):
    """A tool that the caller executes. The fields of type Raw have no effect."""

    name: str
    input_schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    type: str | None = None
    description: str | None = None
    strict: bool | None = None
    cache_control: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    input_examples: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    eager_input_streaming: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    defer_loading: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    allowed_callers: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class _AnyTool(msgspec.Struct):
    """A tool of any kind; only its kind is read."""

    type: str | None = None


class _ToolsOnly(msgspec.Struct):
    tools: list[_AnyTool] | None = None


class AutoChoice(msgspec.Struct, tag_field="type", tag="auto", forbid_unknown_fields=True):
    """The model decides."""

    disable_parallel_tool_use: bool | None = None


class AnyChoice(msgspec.Struct, tag_field="type", tag="any", forbid_unknown_fields=True):
    """The model must call a tool."""

    disable_parallel_tool_use: bool | None = None


class NamedChoice(msgspec.Struct, tag_field="type", tag="tool", forbid_unknown_fields=True):
    """The model must call this tool."""

    name: str
    disable_parallel_tool_use: bool | None = None


class NoChoice(msgspec.Struct, tag_field="type", tag="none", forbid_unknown_fields=True):
    """The model must not call a tool."""


ToolChoice: TypeAlias = AutoChoice | AnyChoice | NamedChoice | NoChoice

_TOOLS_ONLY: Final = msgspec.json.Decoder(_ToolsOnly)
_MODES: Final = {
    AutoChoice: tool_pb2.TOOL_CHOICE_MODE_AUTO,
    AnyChoice: tool_pb2.TOOL_CHOICE_MODE_REQUIRED,
    NoChoice: tool_pb2.TOOL_CHOICE_MODE_NONE,
}


def check_kinds(body: bytes) -> None:
    """Raise Failure for a body's first tool that is not a client tool, even if it has additional fields."""
    try:
        parsed = _TOOLS_ONLY.decode(body)
    except msgspec.MsgspecError:
        return  # the body has other errors
    for i, tool in enumerate(parsed.tools or ()):
        if not is_known(tool.type):
            _check_kind(tool.type, f"tools.{i}")


def _check_kind(kind: str | None, path: str) -> None:
    """Raise Failure for a kind of tool that is not supported."""
    if kind not in {None, "custom"}:
        text = f"{kind[:256]!r} is not supported: offer it as a custom tool, with an input_schema"
        raise Failure.of_field(f"{path}.type", text, Reason.UNSUPPORTED_FIELD)


def offered(tools: Sequence[Tool]) -> list[int]:
    """Return the positions of the tools that are offered to the model: without those that Anthropic's server runs.

    If there are no others, all are returned: such a request could not have what it asks for.
    """
    found = [i for i, tool in enumerate(tools) if not is_servers(tool.type)]
    return found or list(range(len(tools)))


def to_tool(tool: Tool, path: str) -> tool_pb2.Tool:
    """Return the contract's tool. Raise Failure naming `path` for a tool that is not a client tool."""
    if (known := known_function(tool.type, tool.name, strict=tool.strict)) is not None:
        return known
    _check_kind(tool.type, path)
    if not is_given(tool.input_schema):
        raise Failure.of_field(f"{path}.input_schema", "required, but missing", Reason.MISSING_FIELD)
    function = tool_pb2.FunctionDefinition(
        name=tool.name, parameters=bytes(tool.input_schema).decode(), strict=tool.strict
    )
    if tool.description is not None:
        function.description = tool.description
    return tool_pb2.Tool(function=function)


def to_tool_choice(choice: ToolChoice) -> tool_pb2.ToolChoice:
    """Return the contract's tool choice."""
    if isinstance(choice, NamedChoice):
        return tool_pb2.ToolChoice(function_name=choice.name)
    return tool_pb2.ToolChoice(mode=_MODES[type(choice)])


def is_parallel(choice: ToolChoice | None) -> bool | None:
    """Return whether an answer may have several calls; None if the request doesn't specify it."""
    if choice is None or isinstance(choice, NoChoice) or choice.disable_parallel_tool_use is None:
        return None
    return not choice.disable_parallel_tool_use
