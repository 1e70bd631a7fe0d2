"""Content blocks of Anthropic's messages.

Blocks of an earlier answer that a client sends back have more fields than are read here, possibly those of other
servers; unknown fields are ignored. Cache marks (`cache_control`) have no effect: every prompt's prefix is cached.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from gateway.dialects.anthropic.server_block import ServerBlock


class TextBlock(msgspec.Struct, tag_field="type", tag="text"):
    """A piece of text."""

    text: str


class OnlyText(msgspec.Struct):
    """A piece of text where no other kind of block is allowed."""

    type: Literal["text"]
    text: str


class Base64Source(msgspec.Struct, tag_field="type", tag="base64"):
    """A file's content in base64."""

    media_type: str
    data: str


class UrlSource(msgspec.Struct, tag_field="type", tag="url"):
    """A file's address."""

    url: str


class FileSource(msgspec.Struct, tag_field="type", tag="file"):
    """A file that was uploaded earlier."""

    file_id: str


class PlainTextSource(msgspec.Struct, tag_field="type", tag="text"):
    """A document's text."""

    data: str


class ImageBlock(msgspec.Struct, tag_field="type", tag="image"):
    """An image."""

    source: Base64Source | UrlSource | FileSource


class ContentSource(msgspec.Struct, tag_field="type", tag="content"):
    """A document made of blocks."""

    content: str | list[TextBlock | ImageBlock]


class DocumentBlock(msgspec.Struct, tag_field="type", tag="document"):
    """A document; `context` is the caller's description of it."""

    source: Base64Source | UrlSource | FileSource | PlainTextSource | ContentSource
    title: str | None = None
    context: str | None = None


class SearchResultBlock(msgspec.Struct, tag_field="type", tag="search_result"):
    """A search result."""

    source: str
    title: str
    content: list[OnlyText]


class ThinkingBlock(msgspec.Struct, tag_field="type", tag="thinking"):
    """The assistant's thinking."""

    thinking: str


class RedactedThinkingBlock(msgspec.Struct, tag_field="type", tag="redacted_thinking"):
    """An assistant's thinking in encrypted form, which this server can't read."""


class ToolUseBlock(msgspec.Struct, tag_field="type", tag="tool_use"):
    """A tool call of the assistant."""

    id: str
    name: str
    input: dict[str, msgspec.Raw]


class ToolReferenceBlock(msgspec.Struct, tag_field="type", tag="tool_reference"):
    """The name of a tool that a client's own search has found."""

    tool_name: str

    def as_text(self) -> str:
        """Return the text that the model is shown."""
        return self.tool_name


class BrowserStateBlock(msgspec.Struct, tag_field="type", tag="browser_state"):
    """The tabs of a browser after a call, and what the call changed."""

    tabs: list[dict[str, msgspec.Raw]]
    state_changes: list[dict[str, msgspec.Raw]] | None = None

    def as_text(self) -> str:
        """Return the text that the model is shown."""
        changes = {} if self.state_changes is None else {"state_changes": self.state_changes}
        return msgspec.json.encode({"tabs": self.tabs, **changes}).decode()


InputBlock: TypeAlias = TextBlock | ImageBlock | DocumentBlock | SearchResultBlock
ResultBlock: TypeAlias = InputBlock | ToolReferenceBlock | BrowserStateBlock


class ToolResultBlock(msgspec.Struct, tag_field="type", tag="tool_result"):
    """The result of a tool call."""

    tool_use_id: str
    content: str | list[ResultBlock] | None = None
    is_error: bool | None = None


Block: TypeAlias = InputBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock | ServerBlock
