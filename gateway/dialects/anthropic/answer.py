"""The answers of Anthropic's API, as types for the OpenAPI document.

The encoder writes the JSON directly for speed; a test compares each answer with its type.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Unsigned = Annotated[int, Meta(ge=0)]


class MessageUsage(msgspec.Struct):
    """The token usage of a request. `input_tokens` excludes tokens read from the cache."""

    input_tokens: Unsigned
    output_tokens: Unsigned
    cache_creation_input_tokens: Unsigned
    cache_read_input_tokens: Unsigned
    output_tokens_details: dict[str, int] | None = None
    service_tier: str | None = None


class MessageAnswer(msgspec.Struct):
    """A message of the model as content blocks."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[dict[str, Any]]
    stop_reason: Literal[
        "end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "model_context_window_exceeded"
    ]
    stop_sequence: str | None
    usage: MessageUsage
    receipt: str | msgspec.UnsetType = msgspec.UNSET


class MessageEvent(msgspec.Struct):
    """An event of a message, by its `type`: blocks start, grow and stop; `message_delta` has stop reason and usage."""

    type: Literal[
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
    ]
    message: dict[str, Any] | None = None
    index: Unsigned | None = None
    content_block: dict[str, Any] | None = None
    delta: dict[str, Any] | None = None
    usage: MessageUsage | None = None
    receipt: str | None = None


class TokenCountAnswer(msgspec.Struct):
    """The number of tokens of a prompt."""

    input_tokens: Unsigned


class ModelInfoAnswer(msgspec.Struct):
    """A served model."""

    type: Literal["model"]
    id: str
    display_name: str
    created_at: str
    lifecycle: Literal["active"]
    max_input_tokens: Unsigned
    max_tokens: Unsigned


class ModelPageAnswer(msgspec.Struct):
    """One page of the served models."""

    data: list[ModelInfoAnswer]
    has_more: bool
    first_id: str | None
    last_id: str | None


class AnthropicErrorDetails(msgspec.Struct):
    """The details of an error."""

    type: str
    message: str
    details: dict[str, Any] | None = None


class AnthropicError(msgspec.Struct):
    """An error of Anthropic's API."""

    type: Literal["error"]
    error: AnthropicErrorDetails
    request_id: str
