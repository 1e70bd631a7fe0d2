"""Content blocks, as Anthropic's messages have them.

What comes back from an earlier answer has more fields than are read here, and may have those of other servers: they are
ignored. Cache marks (`cache_control`) have no effect: every prompt's prefix is cached.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec


class TextBlock(msgspec.Struct, tag_field="type", tag="text"):
    """A piece of text."""

    text: str


class OnlyText(msgspec.Struct):
    """A piece of text where there is no other kind of block."""

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
    """A file that was sent before."""

    file_id: str


class PlainTextSource(msgspec.Struct, tag_field="type", tag="text"):
    """A document's text."""

    data: str


class ImageBlock(msgspec.Struct, tag_field="type", tag="image"):
    """A picture."""

    source: Base64Source | UrlSource | FileSource


class ContentSource(msgspec.Struct, tag_field="type", tag="content"):
    """A document made of blocks."""

    content: str | list[TextBlock | ImageBlock]


class DocumentBlock(msgspec.Struct, tag_field="type", tag="document"):
    """A document; `context` is what the caller says of it."""

    source: Base64Source | UrlSource | FileSource | PlainTextSource | ContentSource
    title: str | None = None
    context: str | None = None


class SearchResultBlock(msgspec.Struct, tag_field="type", tag="search_result"):
    """Something that a search has found."""

    source: str
    title: str
    content: list[OnlyText]


class ThinkingBlock(msgspec.Struct, tag_field="type", tag="thinking"):
    """What the assistant thought."""

    thinking: str


class RedactedThinkingBlock(msgspec.Struct, tag_field="type", tag="redacted_thinking"):
    """What an assistant thought, unreadable here."""


class ToolUseBlock(msgspec.Struct, tag_field="type", tag="tool_use"):
    """A call that the assistant made."""

    id: str
    name: str
    input: dict[str, msgspec.Raw]


ResultBlock: TypeAlias = TextBlock | ImageBlock | DocumentBlock | SearchResultBlock


class ToolResultBlock(msgspec.Struct, tag_field="type", tag="tool_result"):
    """What came of a call."""

    tool_use_id: str
    content: str | list[ResultBlock] | None = None
    is_error: bool | None = None


Block: TypeAlias = ResultBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock
