"""Encode a chat's answer for Cohere's API: as one JSON object, or as a stream of server-sent events.

A stream has content items and tool calls one after the other, each with start, delta and end events; `message-end` has
the reason of the end and the usage.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import orjson
from sluice.v1.chat_pb2 import (
    FINISH_REASON_CONTENT_FILTER,
    FINISH_REASON_LENGTH,
    FINISH_REASON_STOP,
    FINISH_REASON_TOOL_CALLS,
    ChatChoice,
    ChatResponse,
    ChoiceFinished,
    ContentDelta,
    StreamChatResponse,
    ToolCallDelta,
)
from sluice.v1.content_pb2 import Message
from sluice.v1.logprobs_pb2 import TokenLogprob
from sluice.v1.usage_pb2 import Usage

from gateway.dialects.cohere.error import error_event
from gateway.dialects.seam.encoder import COMMENT
from gateway.dialects.seam.failure import Failure

_MIN_LOGPROB: Final = -9999.0  # JSON has no infinity
_ENDS: Final = {
    FINISH_REASON_STOP: "COMPLETE",
    FINISH_REASON_LENGTH: "MAX_TOKENS",
    FINISH_REASON_TOOL_CALLS: "TOOL_CALL",
    FINISH_REASON_CONTENT_FILTER: "ERROR",
}


class CohereEncoder:
    """Encodes one answer. It keeps the state of the stream: the open item or call, the end and the usage."""

    ping = COMMENT

    def __init__(self, *, has_logprobs: bool = False) -> None:
        self._has_logprobs = has_logprobs
        self._id = ""
        self._index = -1  # index of the open content item, or of the last one
        self._open = ""  # `text`, `thinking`, or `call`
        self._call_index = 0  # index of the open call
        self._end = ChoiceFinished()
        self._usage = Usage()

    def chunk(self, event: StreamChatResponse) -> bytes:
        """Return the server-sent events for one message of the service's stream; empty if the API has none for it."""
        sse = b""
        match event.WhichOneof("event"):
            case "content_delta":
                sse = self._text(event.content_delta)
            case "reasoning_delta":
                sse = self._content("thinking", event.reasoning_delta.text)
            case "tool_call_delta":
                sse = self._call(event.tool_call_delta)
            case "started":
                self._id = event.started.id
                message = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
                sse = _event("message-start", id=self._id, delta={"message": message})
            case "choice_finished":
                self._end.CopyFrom(event.choice_finished)
                sse = self._close()
            case "usage":
                self._usage.CopyFrom(event.usage)
            case "completed":
                delta = {"finish_reason": _to_reason(self._end), "usage": _to_usage(self._usage)}
                sse = _event("message-end", id=self._id, delta=delta, **_receipt(event.completed.receipt))
        return sse

    def whole(self, response: ChatResponse) -> bytes:
        """Return the body of an unstreamed answer."""
        choice = response.choices[0]
        answer: dict[str, Any] = {
            "id": response.id,
            "finish_reason": _to_reason(choice),
            "message": _to_message(choice.message),
            "usage": _to_usage(response.usage),
            **_receipt(response.receipt),
        }
        if self._has_logprobs:
            answer["logprobs"] = [_to_logprobs([token], token.token) for token in choice.logprobs]
        return orjson.dumps(answer)

    def error(self, failure: Failure) -> bytes:
        """Return the last event of a failed stream."""
        return error_event(failure)

    def _text(self, delta: ContentDelta) -> bytes:
        logprobs = {"logprobs": _to_logprobs(delta.logprobs, delta.text)} if delta.logprobs else {}
        return self._content("text", delta.text, **logprobs) if delta.text or logprobs else b""

    def _content(self, kind: str, text: str, **fields: Any) -> bytes:
        opening = b""
        if self._open != kind:
            opening = self._close()
            self._index += 1
            self._open = kind
            content = {"type": kind, kind: ""}
            opening += _event("content-start", index=self._index, delta={"message": {"content": content}})
        return opening + _event(
            "content-delta", index=self._index, delta={"message": {"content": {kind: text}}}, **fields
        )

    def _call(self, call: ToolCallDelta) -> bytes:
        opening = b""
        if call.HasField("id"):
            opening = self._close()
            self._open, self._call_index = "call", call.tool_call_index
            function = {"name": call.name, "arguments": ""}
            started = {"id": call.id, "type": "function", "function": function}
            opening += _event("tool-call-start", index=self._call_index, delta={"message": {"tool_calls": started}})
        if not call.arguments:
            return opening
        piece = {"function": {"arguments": call.arguments}}
        return opening + _event("tool-call-delta", index=self._call_index, delta={"message": {"tool_calls": piece}})

    def _close(self) -> bytes:
        """Return the end of the open item or call, if any."""
        kind, self._open = self._open, ""
        if not kind:
            return b""
        if kind == "call":
            return _event("tool-call-end", index=self._call_index)
        return _event("content-end", index=self._index)


def _event(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **fields}))


def _receipt(receipt: str) -> dict[str, str]:
    """Return the field of a receipt, if there is one."""
    return {"receipt": receipt} if receipt else {}


def _to_message(message: Message) -> dict[str, Any]:
    content: list[dict[str, str]] = []
    if message.reasoning:
        content.append({"type": "thinking", "thinking": message.reasoning})
    text = "".join(part.text for part in message.content)
    if text or not message.tool_calls:
        content.append({"type": "text", "text": text})
    answer: dict[str, Any] = {"role": "assistant", "content": content}
    if message.tool_calls:
        answer["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in message.tool_calls
        ]
    return answer


def _to_reason(end: ChatChoice | ChoiceFinished) -> str:
    return "STOP_SEQUENCE" if end.HasField("stop_sequence") else _ENDS[end.finish_reason]


def _to_usage(usage: Usage) -> dict[str, Any]:
    tokens = {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens}
    return {"tokens": tokens, "cached_tokens": usage.cached_tokens}


def _to_logprobs(tokens: Iterable[TokenLogprob], text: str) -> dict[str, Any]:
    each = list(tokens)
    return {
        "text": text,
        "token_ids": [token.token_id for token in each],
        "logprobs": [max(token.logprob, _MIN_LOGPROB) for token in each],
    }
