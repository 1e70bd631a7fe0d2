"""The kinds of tools of a response request: those that the client runs, and tools of OpenAI's server.

The client runs functions, custom tools, namespaces of both, and the tools of `known_tool`.

The contract has functions only. A function of a namespace has the name `NAMESPACE__FUNCTION` there, and calls of it
have the namespace again. Tools that a server would run are not offered to the model: agents send them along with their
functions. A request with nothing else is rejected, since it could not have what it asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from gateway.dialects.openai_family.parameters.custom_tool import CustomDefinition, custom_tool_field
from gateway.dialects.openai_family.parameters.tool import ChosenFunction, OfferedFunction
from gateway.dialects.openai_family.responses.known_tool import (
    KINDS,
    ApplyPatchTool,
    KnownTool,
    LocalShellTool,
    ShellTool,
    known_name,
)
from gateway.dialects.seam.failure import Failure, Reason

Callers: TypeAlias = list[Literal["direct", "programmatic"]]

_SEPARATOR: Final = "__"
_COMPUTER: Final = (
    "is not supported: results of calls have no images; offer its actions as functions, and send screenshots as "
    "input_image in messages"
)


class FunctionTool(msgspec.Struct, tag_field="type", tag="function", forbid_unknown_fields=True, kw_only=True):
    """A function that the model may call. The fields from `output_schema` on have no effect."""

    function: OfferedFunction | None = None
    name: str | None = None
    description: str | None = None
    parameters: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    strict: bool | None = None
    output_schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    defer_loading: bool | None = None
    allowed_callers: Callers | None = None


class CustomTool(CustomDefinition, tag_field="type", tag="custom", forbid_unknown_fields=True):
    """A tool whose input is free text. The fields here have no effect."""

    defer_loading: bool | None = None
    allowed_callers: Callers | None = None


class NamespaceTool(msgspec.Struct, tag_field="type", tag="namespace", forbid_unknown_fields=True, kw_only=True):
    """Functions of one purpose, whose calls have the namespace's name."""

    name: str
    description: str | None = None
    tools: list[FunctionTool | CustomTool]


class _ServerTool(msgspec.Struct, tag_field="type"):
    """A tool that OpenAI's server runs. Its fields are ignored."""


class WebSearchTool(_ServerTool, tag="web_search"):
    """A search of the web."""


class WebSearchPreviewTool(_ServerTool, tag="web_search_preview"):
    """A search of the web under its earlier name."""


class FileSearchTool(_ServerTool, tag="file_search"):
    """A search of uploaded files."""


class CodeInterpreterTool(_ServerTool, tag="code_interpreter"):
    """A sandbox that runs Python."""


class ImageGenerationTool(_ServerTool, tag="image_generation"):
    """A generator of images."""


class McpTool(_ServerTool, tag="mcp"):
    """Tools of an MCP server that OpenAI's server calls."""


class DatedWebSearchTool(_ServerTool, tag="web_search_2025_08_26"):
    """A search of the web under a dated name."""


class DatedWebSearchPreviewTool(_ServerTool, tag="web_search_preview_2025_03_11"):
    """A search of the web under its earlier name with a date."""


class ProgramTool(_ServerTool, tag="programmatic_tool_calling"):
    """Programs of the model that OpenAI's server runs."""


class ComputerTool(_ServerTool, tag="computer"):
    """A computer that the client controls. It is rejected, since results of calls have no images here."""


class ComputerPreviewTool(_ServerTool, tag="computer_use_preview"):
    """A computer under its earlier name, which is rejected, too."""


class ToolSearchTool(_ServerTool, tag="tool_search"):
    """A search among tools whose loading is deferred; they are all offered here."""


ServerTool: TypeAlias = (
    WebSearchTool
    | WebSearchPreviewTool
    | FileSearchTool
    | CodeInterpreterTool
    | ImageGenerationTool
    | McpTool
    | DatedWebSearchTool
    | DatedWebSearchPreviewTool
    | ToolSearchTool
    | ProgramTool
)
ClientTool: TypeAlias = FunctionTool | CustomTool | KnownTool
ResponseTool: TypeAlias = (
    FunctionTool | CustomTool | KnownTool | NamespaceTool | ComputerTool | ComputerPreviewTool | ServerTool
)


class AllowedTool(msgspec.Struct, omit_defaults=True):
    """A tool that may be called. Those without a name are OpenAI's."""

    type: str
    name: str | None = None
    namespace: str | None = None


class NamedTool(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A tool choice that requires a tool that the client runs, or allows some of the tools only."""

    type: Literal["function", "custom", "allowed_tools", "local_shell", "shell", "apply_patch"]
    function: ChosenFunction | None = None
    name: str | None = None
    mode: Literal["auto", "required"] | None = None
    tools: list[AllowedTool] | None = None


class Offered(NamedTuple):
    """A tool that the model is offered, the caller's path of it, and its namespace, which is empty for none."""

    path: str
    tool: ClientTool
    namespace: str


def offered_tools(tools: Iterable[ResponseTool]) -> list[Offered]:
    """Return all tools that a client runs, those of namespaces included. Raise Failure if there are only others."""
    offered: list[Offered] = []
    others: list[tuple[str, str]] = []
    for index, tool in enumerate(tools):
        path = f"tools.{index}"
        match tool:
            case FunctionTool() | CustomTool() | LocalShellTool() | ShellTool() | ApplyPatchTool():
                offered.append(Offered(path, tool, ""))
            case ComputerTool() | ComputerPreviewTool():
                kind = str(type(tool).__struct_config__.tag)
                raise Failure.of_field(f"{path}.type", f"'{kind}' {_COMPUTER}", Reason.UNSUPPORTED_FIELD)
            case NamespaceTool():
                offered += [Offered(f"{path}.tools.{i}", each, tool.name) for i, each in enumerate(tool.tools)]
            case _:
                others.append((f"{path}.type", str(type(tool).__struct_config__.tag)))
    if others and not offered:
        path, kind = others[0]
        raise Failure.of_field(path, f"'{kind}' is not supported without functions", Reason.UNSUPPORTED_FIELD)
    return offered


def allowed_only(offered: Sequence[Offered], allowed: Iterable[AllowedTool]) -> list[Offered]:
    """Return the tools that may be called. Raise Failure for an allowed one that is not among them."""
    names = [name_prefix(each.namespace) + tool_name(each.tool) for each in offered]
    kept: set[str] = set()
    for index, tool in enumerate(allowed):
        given = tool.name or (tool.type if tool.type in KINDS else None)
        if given is None:
            continue
        name = name_prefix(tool.namespace) + given
        if name not in names:
            raise Failure.of_field(f"tool_choice.tools.{index}", f"{given!r} is not the name of a tool in tools")
        kept.add(name)
    return [each for each, name in zip(offered, names, strict=True) if name in kept]


def offered_field(offered: Offered, field: str) -> str:
    """Return the caller's name of a field of an offered tool's function."""
    tool = offered.tool
    if isinstance(tool, CustomTool):
        inner, field = None, custom_tool_field(tool, field)
    elif not isinstance(tool, FunctionTool):
        return offered.path
    else:
        inner = None if tool.function is None else "function"
    return ".".join(part for part in (offered.path, inner, field) if part)


def parameters_of(offered: Offered) -> tuple[str, msgspec.Raw]:
    """Return the caller's path and the JSON Schema of the parameters; none for other tools than functions."""
    path, tool, _ = offered
    if not isinstance(tool, FunctionTool):
        return path, msgspec.Raw()
    if tool.function is None:
        return f"{path}.parameters", tool.parameters
    return f"{path}.function.parameters", tool.function.parameters


def namespaces_of(tools: Iterable[ResponseTool]) -> dict[str, tuple[str, str]]:
    """Return namespace and name of each function of a namespace, by its name in the contract."""
    named = {}
    for tool in tools:
        if isinstance(tool, NamespaceTool):
            for each in tool.tools:
                name = tool_name(each)
                named[name_prefix(tool.name) + name] = tool.name, name
    return named


def tool_name(tool: ClientTool) -> str:
    """Return the name of a tool, or an empty string if it is missing."""
    match tool:
        case FunctionTool(function=OfferedFunction() as function):
            return function.name
        case FunctionTool() | CustomTool():
            return tool.name or ""
        case _:
            return known_name(tool)


def name_prefix(namespace: str | None) -> str:
    """Return what precedes the names of a namespace's functions; empty without a namespace."""
    if not namespace:
        return ""
    return namespace if namespace.endswith(_SEPARATOR) else namespace + _SEPARATOR
