"""The data of each event of a stream of OpenAI's family, as types for the OpenAPI document.

The encoders write the JSON directly for speed; a test compares each recorded stream with its type.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from gateway.dialects.openai_family.answers.answer import FinishReason, ResponseAnswer, Unsigned, UsageAnswer


class FunctionDelta(msgspec.Struct):
    """A piece of a call's arguments; the first one has the name."""

    arguments: str
    name: str | None = None


class ToolCallDelta(msgspec.Struct):
    """A piece of a call; the first one has `id` and `type`."""

    index: Unsigned
    function: FunctionDelta
    id: str | None = None
    type: Literal["function"] | None = None


class MessageDelta(msgspec.Struct):
    """A delta of a choice's message; the first one has the role, and the last one is empty."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallDelta] | None = None


class ChatChunkChoice(msgspec.Struct):
    """A piece of one choice; `finish_reason` is null except in the last piece."""

    index: Unsigned
    delta: MessageDelta
    finish_reason: FinishReason | None
    logprobs: dict[str, Any] | None = None


class PromptProgress(msgspec.Struct):
    """The progress of the prompts in tokens, on request (`return_progress`). `processed` includes `cache`."""

    total: Unsigned
    cache: Unsigned
    processed: Unsigned
    time_ms: Unsigned


class ChatChunk(msgspec.Struct):
    """A piece of a chat answer. If usage was requested, the last chunk has it, and no choices."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: Unsigned
    model: str
    choices: list[ChatChunkChoice]
    system_fingerprint: str | None = None
    usage: UsageAnswer | None = None
    receipt: str | None = None
    reasoning_effort: Literal["none", "low", "medium", "high"] | None = None
    prompt_progress: PromptProgress | None = None


class CompletionChunkChoice(msgspec.Struct):
    """A piece of one choice; `finish_reason` is null except in the last piece."""

    index: Unsigned
    text: str
    finish_reason: FinishReason | None
    choice_index: Unsigned | None = None
    logprobs: dict[str, Any] | None = None


class CompletionChunk(msgspec.Struct):
    """A piece of a completion. If usage was requested, the last chunk has it, and no choices."""

    id: str
    object: Literal["text_completion"]
    created: Unsigned
    model: str
    choices: list[CompletionChunkChoice]
    system_fingerprint: str | None = None
    usage: UsageAnswer | None = None
    receipt: str | None = None
    prompt_progress: PromptProgress | None = None


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
