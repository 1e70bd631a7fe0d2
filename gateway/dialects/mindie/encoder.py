"""A generated text in the JSON of MindIE, whole and as a stream's events.

A stream has one event for each piece of text and a last one without text, which has the finish reason both next to the
text and in the details; details and token times are sent only on request, as is one more event with the receipt. The
constant parts of a stream are encoded once, when it starts.
"""

from __future__ import annotations

from typing import Any, Final

import orjson
from google.protobuf.duration_pb2 import Duration
from sluice.v1 import chat_pb2
from sluice.v1.text_generation_pb2 import (
    GenerateTextResponse,
    GenerationTimings,
    StreamGenerateTextResponse,
    TextGenerationFinished,
)

from gateway.dialects.mindie.error import to_error_body
from gateway.dialects.seam.encoder import COMMENT
from gateway.dialects.seam.failure import Failure

_FINISH_REASONS: Final = {
    chat_pb2.FINISH_REASON_STOP: "eos_token",
    chat_pb2.FINISH_REASON_LENGTH: "length",
    chat_pb2.FINISH_REASON_CONTENT_FILTER: "content_filter",
}


class MindieEncoder:
    """Encodes one answer. `caller_id` is the caller's id of the request."""

    ping = COMMENT

    def __init__(self, caller_id: str | None, *, details: bool = False, perf_stat: bool = False) -> None:
        self._caller_id = caller_id
        self._details = details
        self._perf_stat = perf_stat
        self._head = b""

    def chunk(self, event: StreamGenerateTextResponse) -> bytes:
        """Return the SSE event for one event of the service; empty if the dialect sends nothing for it."""
        kind = event.WhichOneof("event")
        if kind == "started":
            started = event.started
            head = orjson.dumps(self._identity(started.id, started.model, started.model_version))
            self._head = b"data:" + head[:-1] + b',"text_output":'
        elif kind == "delta" and event.delta.text:
            delta = event.delta
            details = _to_details(delta.num_generated_tokens, delta.timings) if self._details else None
            return self._event(delta.text, {} if details is None else {"details": details})
        elif kind == "finished":
            return self._event("", self._ending(event.finished))
        elif kind == "completed" and event.completed.receipt:
            return self._event("", {"receipt": event.completed.receipt})
        return b""

    def whole(self, response: GenerateTextResponse) -> bytes:
        """Return the body of an unstreamed answer."""
        return orjson.dumps(
            {
                **self._identity(response.id, response.model, response.model_version),
                "text_output": response.text,
                **self._ending(response),
                **({"receipt": response.receipt} if response.receipt else {}),
            }
        )

    def error(self, failure: Failure) -> bytes:
        """Return the last event of a failed stream."""
        return b"data:" + to_error_body(failure) + b"\n\n"

    def _identity(self, answer_id: str, model: str, version: str) -> dict[str, str | None]:
        """Return the fields with the ids of the answer and the model."""
        return {"id": self._caller_id or answer_id, "model_name": model, "model_version": version or None}

    def _event(self, text: str, rest: dict[str, Any]) -> bytes:
        """Return a server-sent event with a text and the other fields `rest`."""
        tail = b"," + orjson.dumps(rest)[1:] if rest else b"}"
        return self._head + orjson.dumps(text) + tail + b"\n\n"

    def _ending(self, end: TextGenerationFinished | GenerateTextResponse) -> dict[str, Any]:
        """Return the fields that a whole answer and the last event have in addition to the text."""
        reason = "stop_sequence" if end.HasField("stop_sequence") else _FINISH_REASONS[end.finish_reason]
        result: dict[str, Any] = {"finish_reason": reason}
        if self._details:
            result["details"] = {"finish_reason": reason} | _to_details(end.num_generated_tokens, end.timings)
        if self._perf_stat:
            result["perf_stat"] = [_to_ms(each) for each in end.timings.tokens]
        return result


def _to_details(num_tokens: int, timings: GenerationTimings) -> dict[str, Any]:
    """Return the details, with `first_token_cost` and `decode_cost` in ms and `queue_wait_time` in µs."""
    return {
        "generated_tokens": num_tokens,
        "first_token_cost": _to_ms(timings.first_token),
        "decode_cost": _to_ms(timings.decode),
        "batch_size": timings.batch_size,
        "queue_wait_time": timings.queue_wait.ToMicroseconds(),
    }


def _to_ms(duration: Duration) -> float:
    return round(duration.ToNanoseconds() / 1e6, 3)
