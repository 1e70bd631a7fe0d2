"""The objects of an answer: the whole one, or the lines of a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import orjson
from google.protobuf.timestamp_pb2 import Timestamp
from sluice.v1 import chat_pb2
from sluice.v1.logprobs_pb2 import TokenLogprob
from sluice.v1.serving_pb2 import RequestTimings
from sluice.v1.usage_pb2 import Usage

_MIN_LOGPROB: Final = -9999.0  # JSON has no infinity
_DONE_REASONS: Final = {
    chat_pb2.FINISH_REASON_STOP: "stop",
    chat_pb2.FINISH_REASON_LENGTH: "length",
    chat_pb2.FINISH_REASON_TOOL_CALLS: "stop",
    chat_pb2.FINISH_REASON_CONTENT_FILTER: "content_filter",
}


class Piece(NamedTuple):
    """A piece of an answer; empty in a stream's last line."""

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    logprobs: tuple[Mapping[str, Any], ...] = ()


PieceFields: TypeAlias = Callable[[Piece], dict[str, Any]]
"""Return the fields of a line with a piece; chats and generations differ in them."""


def chat_fields(piece: Piece) -> dict[str, Any]:
    """Return the fields of a chat's line."""
    message: dict[str, Any] = {"role": "assistant", "content": piece.text}
    if piece.thinking:
        message["thinking"] = piece.thinking
    if piece.tool_calls:
        message["tool_calls"] = piece.tool_calls
    return {"message": message, **_logprob_fields(piece)}


def generate_fields(piece: Piece) -> dict[str, Any]:
    """Return the fields of a generation's line, which has no calls."""
    thinking = {"thinking": piece.thinking} if piece.thinking else {}
    return {"response": piece.text, **thinking, **_logprob_fields(piece)}


def to_time(timestamp: Timestamp) -> str:
    """Return a time in RFC 3339 with microseconds."""
    return timestamp.ToDatetime().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def to_line(fields: Mapping[str, Any]) -> bytes:
    """Return an object as a line."""
    return orjson.dumps(fields) + b"\n"


def to_end(reason: chat_pb2.FinishReason, usage: Usage, timings: RequestTimings) -> dict[str, Any]:
    """Return the last fields: the reason, and tokens and durations in nanoseconds.

    The load's duration is the time until the model was in memory and the first step began. That of the prompt begins
    there; it is 0 if there is no token.
    """
    queue, decode = timings.queue_wait.ToNanoseconds(), timings.decode.ToNanoseconds()
    prompt = max(timings.first_token.ToNanoseconds() - queue, 0)
    load = timings.load_wait.ToNanoseconds() + queue
    return {
        "done": True,
        "done_reason": _DONE_REASONS[reason],
        "total_duration": load + prompt + decode,
        "load_duration": load,
        "prompt_eval_count": usage.prompt_tokens,
        "prompt_eval_duration": prompt,
        "eval_count": usage.completion_tokens,
        "eval_duration": decode,
    }


def to_logprobs(tokens: Iterable[TokenLogprob]) -> tuple[Mapping[str, Any], ...]:
    """Return tokens with their log probabilities and alternatives."""
    return tuple(
        _to_token(token)
        | ({"top_logprobs": [_to_token(top) for top in token.top_logprobs]} if token.top_logprobs else {})
        for token in tokens
    )


def _to_token(token: TokenLogprob) -> dict[str, Any]:
    return {"token": token.token, "logprob": max(token.logprob, _MIN_LOGPROB), "bytes": list(token.bytes)}


def _logprob_fields(piece: Piece) -> dict[str, Any]:
    return {"logprobs": piece.logprobs} if piece.logprobs else {}
