"""Blocks of tools that Anthropic's server runs, which a conversation that was begun there has.

Calls with a result become a call of a function and its result, so that the model sees both. Only text is read: results
have encrypted parts and files as well.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

import msgspec

from gateway.dialects.seam.failure import Failure, Reason

_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME: Final = 64
_MAX_LEVELS: Final = 4  # of values in a result; documented ones have three
_READABLE: Final = (  # the fields of results with text, in the order in which it is shown
    "title",
    "url",
    "page_age",
    "text",
    "stdout",
    "stderr",
    "lines",
    "tool_name",
    "tool_references",
    "content",
    "source",
)
_REJECTED: Final = {
    "container_upload": "no programs run on this server; send the file as a document",
    "tool_addition": "put the tools of this request into tools",
    "tool_removal": "put the tools of this request into tools",
}


class ServerCallBlock(msgspec.Struct, tag_field="type", tag="server_tool_use"):
    """A call of a tool that the server runs."""

    id: str
    name: str
    input: dict[str, msgspec.Raw]

    @property
    def function_name(self) -> str:
        """The name, with characters that names of functions may have."""
        return _NAME.sub("_", self.name)[:_MAX_NAME] or "tool"


class McpCallBlock(ServerCallBlock, tag_field="type", tag="mcp_tool_use"):
    """A call of a tool of an MCP server."""


class ServerResultBlock(msgspec.Struct, tag_field="type", tag="web_search_tool_result"):
    """The result of a call; `content` has another form for each tool."""

    tool_use_id: str
    content: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    is_error: bool | None = None

    @property
    def text(self) -> str:
        """What of the result can be read."""
        return _text(msgspec.json.decode(bytes(self.content) or b"null"), "\n\n", _MAX_LEVELS)


class FetchResultBlock(ServerResultBlock, tag_field="type", tag="web_fetch_tool_result"):
    """A page or a file of the web."""


class CodeResultBlock(ServerResultBlock, tag_field="type", tag="code_execution_tool_result"):
    """What a program printed."""


class BashResultBlock(ServerResultBlock, tag_field="type", tag="bash_code_execution_tool_result"):
    """What a command printed."""


class EditorResultBlock(ServerResultBlock, tag_field="type", tag="text_editor_code_execution_tool_result"):
    """A file's text, or its changed lines."""


class ToolSearchResultBlock(ServerResultBlock, tag_field="type", tag="tool_search_tool_result"):
    """The names of tools."""


class AdvisorResultBlock(ServerResultBlock, tag_field="type", tag="advisor_tool_result"):
    """Another model's advice."""


class McpResultBlock(ServerResultBlock, tag_field="type", tag="mcp_tool_result"):
    """The result of a tool of an MCP server."""


class CompactionBlock(msgspec.Struct, tag_field="type", tag="compaction"):
    """A summary, which replaces the messages before it; without content it replaces nothing."""

    content: str | None = None


class ContainerUploadBlock(msgspec.Struct, tag_field="type", tag="container_upload"):
    """A file in the container of the server's programs."""


class FallbackBlock(msgspec.Struct, tag_field="type", tag="fallback"):
    """The point from which another model answered."""


class McpToolListingBlock(msgspec.Struct, tag_field="type", tag="mcp_tool_listing"):
    """The tools of an MCP server."""


class ToolAdditionBlock(msgspec.Struct, tag_field="type", tag="tool_addition"):
    """A tool that is offered from here on."""


class ToolRemovalBlock(msgspec.Struct, tag_field="type", tag="tool_removal"):
    """A tool that is not offered from here on."""


ServerCall: TypeAlias = ServerCallBlock | McpCallBlock
ServerResult: TypeAlias = (
    ServerResultBlock
    | FetchResultBlock
    | CodeResultBlock
    | BashResultBlock
    | EditorResultBlock
    | ToolSearchResultBlock
    | AdvisorResultBlock
    | McpResultBlock
)
LeftOutBlock: TypeAlias = FallbackBlock | McpToolListingBlock | ContainerUploadBlock
ToolChangeBlock: TypeAlias = ToolAdditionBlock | ToolRemovalBlock
ServerBlock: TypeAlias = ServerCall | ServerResult | CompactionBlock | LeftOutBlock | ToolChangeBlock


def check_supported(block: ContainerUploadBlock | ToolChangeBlock, path: str) -> None:
    """Raise Failure for a block that a client adds and that has no effect here, naming `path` and what to do."""
    kind = str(block.__struct_config__.tag)
    raise Failure.of_field(f"{path}.type", f"'{kind}' is not supported: {_REJECTED[kind]}", Reason.UNSUPPORTED_FIELD)


def _text(value: Any, between: str, num_levels: int) -> str:
    """Return the text in a value of JSON; `between` separates the items of a list."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and num_levels:
        return between.join(filter(None, (_text(each, "\n", num_levels - 1) for each in value)))
    if not isinstance(value, dict) or not num_levels:
        return ""
    if isinstance(code := value.get("error_code"), str):
        return f"Error: {code}"
    readable = ("data", *_READABLE) if value.get("type") == "text" else _READABLE  # the source of a document
    return "\n".join(filter(None, (_text(value.get(name), "\n", num_levels - 1) for name in readable)))
