"""Encode a chat's answer for Anthropic's Messages API: as one JSON object, or as a stream of server-sent events.

A stream has content blocks one after the other, each with start, delta and stop events; `message_delta`, the last event
but one, has stop reason and usage. The constant parts of a block's deltas are encoded once.
"""

from __future__ import annotations

from typing import Any, Final

import orjson
from sluice.v1 import usage_pb2
from sluice.v1.chat_pb2 import ChatResponse, ChatStarted, ChoiceFinished, StreamChatResponse, ToolCallDelta

from gateway.dialects.anthropic.error import error_event
from gateway.dialects.anthropic.message_object import signature, to_blocks, to_end, to_head, to_usage
from gateway.dialects.seam.failure import Failure

_DELTAS: Final = {  # a block's type → the type of its deltas, and their text field
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}


class AnthropicEncoder:
    """Encodes one answer. It keeps the state of the stream: the open block, the stop reason and the usage.

    `max_tokens` is the requested limit. Without `shows_thinking`, blocks of thinking have no text.
    """

    ping = b'event: ping\ndata: {"type":"ping"}\n\n'

    def __init__(self, max_tokens: int, *, shows_thinking: bool = True) -> None:
        self._max_tokens = max_tokens
        self._shows_thinking = shows_thinking
        self._index = -1  # index of the open block, or of the last one
        self._open = ""  # type of the open block
        self._delta_head = b""  # prefix of the open block's deltas, up to their text
        self._thinking_text: list[str] = []  # the text of the open block of thinking, for its signature
        self._end = ChoiceFinished()
        self._usage = usage_pb2.Usage()

    def chunk(self, event: StreamChatResponse) -> bytes:
        """Return the server-sent events for one message of the service's stream; empty if the API has none for it."""
        sse = b""
        match event.WhichOneof("event"):
            case "content_delta":
                sse = self._text(event.content_delta.text)
            case "reasoning_delta":
                sse = self._thinking(event.reasoning_delta.text)
            case "tool_call_delta":
                sse = self._call(event.tool_call_delta)
            case "choice_finished":
                self._end.CopyFrom(event.choice_finished)
                sse = self._stop_block()
            case "started":
                sse = self._message_start(event.started)
            case "usage":
                self._usage.CopyFrom(event.usage)
            case "completed":
                sse = self._message_end(event.completed.receipt)
        return sse

    def whole(self, response: ChatResponse) -> bytes:
        """Return the body of an unstreamed answer."""
        choice = response.choices[0]
        return orjson.dumps(
            {
                **to_head(response.id, response.model),
                "content": list(to_blocks(choice.message, shows_thinking=self._shows_thinking)),
                **to_end(choice, response.usage, self._max_tokens),
                "usage": to_usage(response.usage),
                **_receipt(response.receipt),
            }
        )

    def error(self, failure: Failure) -> bytes:
        """Return the last event of a failed stream."""
        return error_event(failure)

    def _message_start(self, started: ChatStarted) -> bytes:
        message = {
            **to_head(started.id, started.model),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": to_usage(usage_pb2.Usage(prompt_tokens=started.prompt_tokens)),
        }
        return _event("message_start", message=message)

    def _text(self, text: str) -> bytes:
        if not text:
            return b""
        opening = b"" if self._open == "text" else self._start_block("text", {"text": "", "citations": None})
        return opening + self._delta(text)

    def _thinking(self, text: str) -> bytes:
        if not text:
            return b""
        opening = b"" if self._open == "thinking" else self._start_block("thinking", {"thinking": "", "signature": ""})
        self._thinking_text.append(text)
        return opening + (self._delta(text) if self._shows_thinking else b"")

    def _call(self, call: ToolCallDelta) -> bytes:
        opening = b""
        if call.HasField("id"):
            opening = self._start_block("tool_use", {"id": call.id, "name": call.name, "input": {}})
        return opening + self._delta(call.arguments)

    def _start_block(self, kind: str, block: dict[str, Any]) -> bytes:
        """Return the start of a block, preceded by the stop of the previous one."""
        ended = self._stop_block()
        self._index += 1
        self._open = kind
        delta, text = _DELTAS[kind]
        head = f'{{"type":"content_block_delta","index":{self._index},"delta":{{"type":"{delta}","{text}":'
        self._delta_head = b"event: content_block_delta\ndata: " + head.encode()
        return ended + _event("content_block_start", index=self._index, content_block={"type": kind, **block})

    def _delta(self, text: str) -> bytes:
        return self._delta_head + orjson.dumps(text) + b"}}\n\n" if text else b""

    def _stop_block(self) -> bytes:
        """Return the stop event of the open block, if any."""
        if not self._open:
            return b""
        signed = b""
        if self._open == "thinking":
            delta = {"type": "signature_delta", "signature": signature("".join(self._thinking_text))}
            signed = _event("content_block_delta", index=self._index, delta=delta)
            self._thinking_text.clear()
        self._open = ""
        return signed + _event("content_block_stop", index=self._index)

    def _message_end(self, receipt: str) -> bytes:
        end = to_end(self._end, self._usage, self._max_tokens)
        last = _event("message_delta", delta=end, usage=to_usage(self._usage), **_receipt(receipt))
        return last + _event("message_stop")


def _receipt(receipt: str) -> dict[str, str]:
    """Return the field of a receipt, if there is one."""
    return {"receipt": receipt} if receipt else {}


def _event(kind: str, **fields: Any) -> bytes:
    """Return a server-sent event."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **fields}))
