"""What each event of a stream of OpenAI's family holds, as types for the OpenAPI document.

The encoders write the JSON directly for speed; a test compares each recorded stream with its type.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from gateway.dialects.openai_family.answers.answer import FinishReason, ResponseAnswer, Unsigned, UsageAnswer


class FunctionDelta(msgspec.Struct):
    """A piece of a call's arguments; the name comes with the first."""

    arguments: str
    name: str | None = None


class ToolCallDelta(msgspec.Struct):
    """A piece of a call; `id` and `type` come with the first."""

    index: Unsigned
    function: FunctionDelta
    id: str | None = None
    type: Literal["function"] | None = None


class MessageDelta(msgspec.Struct):
    """What a choice's message gains; the role comes with the first, and the last has nothing."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallDelta] | None = None


class ChatChunkChoice(msgspec.Struct):
    """A piece of one of the answers; `finish_reason` is null up to its last."""

    index: Unsigned
    delta: MessageDelta
    finish_reason: FinishReason | None
    logprobs: dict[str, Any] | None = None


class ChatChunk(msgspec.Struct):
    """A piece of an answer to a conversation. Where usage was asked for, the last has it, and no choices."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: Unsigned
    model: str
    choices: list[ChatChunkChoice]
    system_fingerprint: str | None = None
    usage: UsageAnswer | None = None
    reasoning_effort: Literal["none", "low", "medium", "high"] | None = None


class CompletionChunkChoice(msgspec.Struct):
    """A piece of one of the continuations; `finish_reason` is null up to its last."""

    index: Unsigned
    text: str
    finish_reason: FinishReason | None
    choice_index: Unsigned | None = None
    logprobs: dict[str, Any] | None = None


class CompletionChunk(msgspec.Struct):
    """A piece of continuations. Where usage was asked for, the last has it, and no choices."""

    id: str
    object: Literal["text_completion"]
    created: Unsigned
    model: str
    choices: list[CompletionChunkChoice]
    system_fingerprint: str | None = None
    usage: UsageAnswer | None = None


class ResponseEvent(msgspec.Struct):
    """An event of a response, by its `type`; the last has the whole response."""

    type: str
    sequence_number: Unsigned
    response: ResponseAnswer | None = None
    output_index: Unsigned | None = None
    item: dict[str, Any] | None = None
    item_id: str | None = None
    content_index: Unsigned | None = None
    part: dict[str, Any] | None = None
    delta: str | None = None
    text: str | None = None
    arguments: str | None = None
