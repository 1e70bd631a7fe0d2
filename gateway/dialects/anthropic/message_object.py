"""A message's parts in Anthropic's JSON: blocks, stop reason and usage."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final

import orjson
from sluice.v1 import chat_pb2
from sluice.v1.content_pb2 import Message
from sluice.v1.usage_pb2 import Usage

from gateway.dialects.anthropic.conversation import INVALID_INPUT

_STOP_REASONS: Final = {
    chat_pb2.FINISH_REASON_STOP: "end_turn",
    chat_pb2.FINISH_REASON_LENGTH: "max_tokens",
    chat_pb2.FINISH_REASON_TOOL_CALLS: "tool_use",
    chat_pb2.FINISH_REASON_CONTENT_FILTER: "refusal",
}


def to_head(answer_id: str, model: str) -> dict[str, Any]:
    """Return the fields at the start of a message."""
    return {"id": f"msg_{answer_id}", "type": "message", "role": "assistant", "model": model}


def to_blocks(message: Message, *, shows_thinking: bool) -> Iterator[dict[str, Any]]:
    """Return the blocks of a whole answer."""
    if message.reasoning:
        thinking = message.reasoning if shows_thinking else ""
        yield {"type": "thinking", "thinking": thinking, "signature": signature(message.reasoning)}
    if text := "".join(part.text for part in message.content):
        yield {"type": "text", "text": text, "citations": None}
    for call in message.tool_calls:
        function = call.function
        yield {"type": "tool_use", "id": call.id, "name": function.name, "input": _to_input(function.arguments)}


def signature(thinking: str) -> str:
    """Return a digest of a thinking block's text: clients drop a block without a signature."""
    return b64encode(hashlib.sha256(thinking.encode()).digest()).decode()


def to_end(end: chat_pb2.ChoiceFinished | chat_pb2.ChatChoice, usage: Usage, max_tokens: int) -> dict[str, str | None]:
    """Return `stop_reason` and `stop_sequence` of an answer with the limit `max_tokens`."""
    reason = _STOP_REASONS[end.finish_reason]
    if end.HasField("stop_sequence"):
        return {"stop_reason": "stop_sequence", "stop_sequence": end.stop_sequence}
    if reason == "max_tokens" and usage.completion_tokens < max_tokens:
        reason = "model_context_window_exceeded"
    return {"stop_reason": reason, "stop_sequence": None}


def to_usage(usage: Usage) -> dict[str, Any]:
    """Return `usage` of an answer. Tokens read from the cache are not part of `input_tokens`."""
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
        "service_tier": "standard",
    }


def _to_input(arguments: str) -> orjson.Fragment | dict[str, str]:
    """Return a call's arguments verbatim.

    Text that is not a JSON object, such as a truncated one, is wrapped in an object.
    """
    arguments = arguments or "{}"
    try:
        is_object = isinstance(orjson.loads(arguments), dict)
    except orjson.JSONDecodeError:
        is_object = False
    return orjson.Fragment(arguments) if is_object else {INVALID_INPUT: arguments}
