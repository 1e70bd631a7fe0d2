"""Encode the answers of Ollama's chats and generations: as one JSON object, or as a stream of lines.

A line has a piece of text, of thinking, or complete tool calls; the last one has the reason of the end and the counts.
"""

from __future__ import annotations

from typing import Any, Final

import orjson
from sluice.v1 import chat_pb2
from sluice.v1.chat_pb2 import ChatResponse, StreamChatResponse, ToolCallDelta
from sluice.v1.completion_pb2 import CompleteResponse, StreamCompleteResponse
from sluice.v1.model_pb2 import MODEL_STATE_UNLOADED, KeepModelRequest, KeepModelResponse
from sluice.v1.usage_pb2 import Usage

from gateway.dialects.ollama.error import error_body
from gateway.dialects.ollama.line import (
    Piece,
    PieceFields,
    chat_fields,
    generate_fields,
    to_end,
    to_line,
    to_logprobs,
    to_time,
)
from gateway.dialects.seam.encoder import WholeEncoder
from gateway.dialects.seam.failure import Failure, Reason

INVALID_ARGUMENTS: Final = "INVALID_JSON"  # the only key of arguments that are not a JSON object


class _LineEncoder:
    """The state that the streams of chats and completions have in common."""

    def __init__(self, model: str, fields: PieceFields) -> None:
        """`model` is the name that the request has; empty if it has none."""
        self._fields = fields
        self._head: dict[str, Any] = {"model": model}
        self._reason: chat_pb2.FinishReason = chat_pb2.FINISH_REASON_UNSPECIFIED
        self._usage = Usage()

    @property
    def ping(self) -> bytes:
        """A line with an empty piece."""
        return self._line(Piece())

    def error(self, failure: Failure) -> bytes:
        """Return the last line of a failed stream."""
        return error_body(failure) + b"\n"

    def _start(self, started: Any) -> None:
        """Record the identity of an answer, from its first event or the whole answer."""
        self._head = {"model": self._head["model"] or started.model, "created_at": to_time(started.created)}

    def _line(self, piece: Piece) -> bytes:
        return to_line({**self._head, **self._fields(piece), "done": False})

    def _last_line(self, completed: Any) -> bytes:
        end = to_end(self._reason, self._usage, completed.timings)
        return to_line({**self._head, **self._fields(Piece()), **end, **_receipt(completed)})

    def _whole(self, response: ChatResponse | CompleteResponse, piece: Piece) -> bytes:
        self._start(response)
        end = to_end(response.choices[0].finish_reason, response.usage, response.timings)
        return orjson.dumps({**self._head, **self._fields(piece), **end, **_receipt(response)})


def _receipt(end: Any) -> dict[str, str]:
    """Return the field of a receipt, if there is one."""
    return {"receipt": end.receipt} if end.receipt else {}


class OllamaChatEncoder(_LineEncoder):
    """Encodes one answer of a chat, or of a generation in the model's chat template."""

    def __init__(self, model: str, fields: PieceFields = chat_fields) -> None:
        super().__init__(model, fields)
        self._call: ToolCallDelta | None = None  # the call whose arguments are not yet complete

    def chunk(self, event: StreamChatResponse) -> bytes:
        """Return the lines for one event of the service; empty if it has none."""
        match event.WhichOneof("event"):
            case "content_delta":
                delta = event.content_delta
                piece = Piece(delta.text, logprobs=to_logprobs(delta.logprobs))
                return self._line(piece) if delta.text or piece.logprobs else b""
            case "reasoning_delta":
                return self._line(Piece(thinking=event.reasoning_delta.text))
            case "tool_call_delta":
                return self._add_call(event.tool_call_delta)
            case "choice_finished":
                self._reason = event.choice_finished.finish_reason
                return self._end_call()
            case "started":
                self._start(event.started)
            case "usage":
                self._usage.CopyFrom(event.usage)
            case "completed":
                return self._last_line(event.completed)
        return b""

    def whole(self, response: ChatResponse) -> bytes:
        """Return the body of an unstreamed answer."""
        choice = response.choices[0]
        piece = Piece(
            "".join(part.text for part in choice.message.content),
            choice.message.reasoning,
            tuple(
                _to_call(index, call.id, call.function.name, call.function.arguments)
                for index, call in enumerate(choice.message.tool_calls)
            ),
            to_logprobs(choice.logprobs),
        )
        return self._whole(response, piece)

    def _add_call(self, delta: ToolCallDelta) -> bytes:
        """Add a delta to its call; return the line of the call before it, if it begins another one."""
        if not delta.HasField("id") and self._call is not None:
            self._call.arguments += delta.arguments
            return b""
        line = self._end_call()
        self._call = ToolCallDelta()
        self._call.CopyFrom(delta)
        return line

    def _end_call(self) -> bytes:
        """Return the line of the complete call, if any."""
        call, self._call = self._call, None
        if call is None:
            return b""
        return self._line(Piece(tool_calls=(_to_call(call.tool_call_index, call.id, call.name, call.arguments),)))


class OllamaCompletionEncoder(_LineEncoder):
    """Encodes one answer of a generation from a raw prompt."""

    def __init__(self, model: str) -> None:
        super().__init__(model, generate_fields)

    def chunk(self, event: StreamCompleteResponse) -> bytes:
        """Return the lines for one event of the service; empty if it has none."""
        match event.WhichOneof("event"):
            case "delta":
                piece = Piece(event.delta.text, logprobs=to_logprobs(event.delta.logprobs))
                return self._line(piece) if piece.text or piece.logprobs else b""
            case "choice_finished":
                self._reason = event.choice_finished.finish_reason
            case "started":
                self._start(event.started)
            case "usage":
                self._usage.CopyFrom(event.usage)
            case "completed":
                return self._last_line(event.completed)
        return b""

    def whole(self, response: CompleteResponse) -> bytes:
        """Return the body of an unstreamed answer."""
        choice = response.choices[0]
        return self._whole(response, Piece(choice.text, logprobs=to_logprobs(choice.logprobs)))


class LoadEncoder(WholeEncoder):
    """Encodes the answer to a request without messages or prompt, which only loads the model, or unloads it."""

    def __init__(self, model: str, fields: PieceFields, request: KeepModelRequest) -> None:
        self._model = model
        self._fields = fields
        self._unloads = request.HasField("keep_alive_seconds") and request.keep_alive_seconds == 0

    def whole(self, response: KeepModelResponse) -> bytes:
        """Return the body of the answer. A model that the service keeps in memory is `load`, whatever was requested.

        Raise Failure for a model that sleeps.
        """
        model = response.model
        if model.is_asleep:
            raise Failure(Reason.MODEL_ASLEEP, f"the model {model.name!r} sleeps until an operator wakes it")
        is_unloaded = model.state == MODEL_STATE_UNLOADED or model.HasField("expire_time")
        reason = "unload" if self._unloads and is_unloaded else "load"
        head = {"model": self._model or model.name, "created_at": to_time(model.created)}
        return orjson.dumps({**head, **self._fields(Piece()), "done": True, "done_reason": reason})


def _to_call(index: int, call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "function": {"index": index, "name": name, "arguments": _to_arguments(arguments or "{}")}}


def _to_arguments(arguments: str) -> orjson.Fragment | dict[str, str]:
    """Return a call's arguments verbatim; text that is not a JSON object is wrapped in one."""
    try:
        is_object = isinstance(orjson.loads(arguments), dict)
    except orjson.JSONDecodeError:
        is_object = False
    return orjson.Fragment(arguments) if is_object else {INVALID_ARGUMENTS: arguments}
