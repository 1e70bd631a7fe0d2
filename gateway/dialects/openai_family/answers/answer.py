"""The answers of OpenAI's family, as types for the OpenAPI document.

The encoders write the JSON directly for speed; a test compares each answer with its type.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Unsigned = Annotated[int, Meta(ge=0)]
FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]


class TokenCounts(msgspec.Struct):
    """The parts of a token count."""

    cached_tokens: Unsigned | None = None
    reasoning_tokens: Unsigned | None = None


class UsageAnswer(msgspec.Struct):
    """The token usage of a request."""

    prompt_tokens: Unsigned
    total_tokens: Unsigned
    completion_tokens: Unsigned | None = None
    reasoning_tokens: Unsigned | None = None
    prompt_tokens_details: TokenCounts | None = None
    completion_tokens_details: TokenCounts | None = None


class FunctionAnswer(msgspec.Struct):
    """A function's name and the JSON text of its arguments."""

    name: str
    arguments: str


class CustomAnswer(msgspec.Struct):
    """A custom tool's name and its input."""

    name: str
    input: str


class ToolCallAnswer(msgspec.Struct):
    """A tool call that the model requests; `custom` instead of `function` for a custom tool."""

    id: str
    type: Literal["function", "custom"]
    function: FunctionAnswer | None = None
    custom: CustomAnswer | None = None


class MessageAnswer(msgspec.Struct):
    """A message of the model."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallAnswer] | None = None


class ChatChoiceAnswer(msgspec.Struct):
    """One choice of a chat answer."""

    index: Unsigned
    message: MessageAnswer
    finish_reason: FinishReason
    logprobs: dict[str, Any] | None = None


class ChatAnswer(msgspec.Struct):
    """A whole answer to a conversation."""

    id: str
    object: Literal["chat.completion", "chat.completions"]
    created: Unsigned
    model: str
    choices: list[ChatChoiceAnswer]
    usage: UsageAnswer
    system_fingerprint: str | None = None
    receipt: str | None = None
    reasoning_effort: Literal["none", "low", "medium", "high"] | None = None
    service_tier: Literal["default"] | None = None


class CompletionChoiceAnswer(msgspec.Struct):
    """One choice of a completion. If `index` is the prompt's, `choice_index` is the index among all choices."""

    index: Unsigned
    text: str
    finish_reason: FinishReason
    choice_index: Unsigned | None = None
    logprobs: dict[str, Any] | None = None


class CompletionAnswer(msgspec.Struct):
    """A whole completion."""

    id: str
    object: Literal["text_completion"]
    created: Unsigned
    model: str
    choices: list[CompletionChoiceAnswer]
    usage: UsageAnswer
    system_fingerprint: str | None = None
    receipt: str | None = None


class EmbeddingAnswer(msgspec.Struct):
    """One vector: its components, or their bytes (float32, little-endian) in base64."""

    object: Literal["embedding"]
    index: Unsigned
    embedding: list[float] | str


class EmbeddingsAnswer(msgspec.Struct):
    """The vectors of all inputs."""

    object: Literal["list"]
    model: str
    data: list[EmbeddingAnswer]
    usage: UsageAnswer
    id: str | None = None


class ResponseAnswer(msgspec.Struct):
    """A response: the items that the model generated, and the parameters of the request."""

    id: str
    object: Literal["response"]
    created_at: float
    status: Literal["completed", "failed", "in_progress", "cancelled", "queued", "incomplete"]
    model: str
    output: list[dict[str, Any]]
    parallel_tool_calls: bool
    tools: list[dict[str, Any]]
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    incomplete_details: dict[str, Any] | None = None
    metadata: dict[str, str] | None = None
    receipt: str | None = None
