"""The kinds of tools of a response request: functions, namespaces of functions, and tools that OpenAI's server runs.

The contract has functions only. A function of a namespace has the name `NAMESPACE__FUNCTION` there, and calls of it
have the namespace again. Tools that a server would run are not offered to the model: agents send them along with their
functions. A request with nothing else is rejected, since it could not have what it asks for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from gateway.dialects.openai_family.parameters.tool import ChosenFunction, OfferedFunction
from gateway.dialects.seam.failure import Failure, Reason

_SEPARATOR: Final = "__"


class FunctionTool(msgspec.Struct, tag_field="type", tag="function", forbid_unknown_fields=True, kw_only=True):
    """A function that the model may call."""

    function: OfferedFunction | None = None
    name: str | None = None
    description: str | None = None
    parameters: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    strict: bool | None = None


class NamespaceTool(msgspec.Struct, tag_field="type", tag="namespace", forbid_unknown_fields=True, kw_only=True):
    """Functions of one purpose, whose calls have the namespace's name."""

    name: str
    description: str | None = None
    tools: list[FunctionTool]


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


ServerTool: TypeAlias = (
    WebSearchTool | WebSearchPreviewTool | FileSearchTool | CodeInterpreterTool | ImageGenerationTool | McpTool
)
ResponseTool: TypeAlias = FunctionTool | NamespaceTool | ServerTool


class NamedTool(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A tool choice that requires a function."""

    type: Literal["function"]
    function: ChosenFunction | None = None
    name: str | None = None


class Offered(NamedTuple):
    """A function that the model is offered: the caller's path of it, and the prefix of its name."""

    path: str
    function: FunctionTool
    prefix: str


def offered_functions(tools: Iterable[ResponseTool]) -> list[Offered]:
    """Return all functions, those of namespaces included. Raise Failure if there are only tools of other kinds."""
    functions: list[Offered] = []
    others: list[tuple[str, str]] = []
    for index, tool in enumerate(tools):
        path = f"tools.{index}"
        match tool:
            case FunctionTool():
                functions.append(Offered(path, tool, ""))
            case NamespaceTool():
                prefix = name_prefix(tool.name)
                functions += [Offered(f"{path}.tools.{i}", each, prefix) for i, each in enumerate(tool.tools)]
            case _:
                others.append((f"{path}.type", str(type(tool).__struct_config__.tag)))
    if others and not functions:
        path, kind = others[0]
        raise Failure.of_field(path, f"'{kind}' is not supported without functions", Reason.UNSUPPORTED_FIELD)
    return functions


def namespaces_of(tools: Iterable[ResponseTool]) -> dict[str, tuple[str, str]]:
    """Return namespace and name of each function of a namespace, by its name in the contract."""
    named = {}
    for tool in tools:
        if isinstance(tool, NamespaceTool):
            for each in tool.tools:
                name = (each.name if each.function is None else each.function.name) or ""
                named[name_prefix(tool.name) + name] = tool.name, name
    return named


def name_prefix(namespace: str | None) -> str:
    """Return what precedes the names of a namespace's functions; empty without a namespace."""
    if not namespace:
        return ""
    return namespace if namespace.endswith(_SEPARATOR) else namespace + _SEPARATOR
