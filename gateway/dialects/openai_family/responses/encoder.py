"""A response in OpenAI's JSON: one object, or events on a stream.

A stream of a response in the background has the fields of its request in its first event.

A failed stream ends with `response.failed`, which has the partial response and the next sequence number. The constant
parts of an item's text deltas are encoded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson
from sluice.v1.response_event_pb2 import OutputTextDelta, StreamResponseResponse
from sluice.v1.response_pb2 import CreateResponseResponse

from gateway.dialects.openai_family.answers.token_list import to_token_list
from gateway.dialects.openai_family.parameters.custom_input import CustomInput, input_of
from gateway.dialects.openai_family.responses.known_tool import is_known_id
from gateway.dialects.openai_family.responses.response_object import ResponseObject, to_part, to_usage
from gateway.dialects.seam.encoder import COMMENT
from gateway.dialects.seam.failure import Failure, Reason

_KINDS: Final = {  # the contract's events → the caller's event types
    "created": "response.created",
    "in_progress": "response.in_progress",
    "output_item_added": "response.output_item.added",
    "output_item_done": "response.output_item.done",
    "content_part_added": "response.content_part.added",
    "content_part_done": "response.content_part.done",
    "output_text_delta": "response.output_text.delta",
    "output_text_done": "response.output_text.done",
    "reasoning_text_delta": "response.reasoning_text.delta",
    "reasoning_text_done": "response.reasoning_text.done",
    "function_call_arguments_delta": "response.function_call_arguments.delta",
    "function_call_arguments_done": "response.function_call_arguments.done",
    "completed": "response.completed",
    "incomplete": "response.incomplete",
    "queued": "response.queued",
    "failed": "response.failed",
    "cancelled": "response.cancelled",
}
_CUSTOM_KINDS: Final = {  # those of custom tools
    "function_call_arguments_delta": "response.custom_tool_call_input.delta",
    "function_call_arguments_done": "response.custom_tool_call_input.done",
}
_WRITERS: Final[dict[str, Callable[[Any], Any]]] = {"part": to_part, "logprobs": to_token_list}
_RESPONSES: Final = frozenset({"created", "queued", "in_progress", "completed", "incomplete", "failed", "cancelled"})
_REASONING: Final = frozenset({"reasoning_text_delta", "reasoning_text_done"})
_TEXT_DELTA: Final = _KINDS["output_text_delta"]
_INVALID: Final = frozenset({Reason.INVALID_FIELD, Reason.PROMPT_TOO_LONG, Reason.CONSTRAINT_FAILED})


class ResponseEncoder:
    """Encodes one answer. `response` writes the response object, including echoed fields."""

    ping = COMMENT

    def __init__(self, response: ResponseObject) -> None:
        self._response = response
        self._response_so_far: dict[str, Any] = {}  # the response as last sent, with the completed items
        self._call_name = ""  # name of the last call that started
        self._input: CustomInput | None = None  # of the last call that started
        self._known_id = ""  # of the last call of a tool of OpenAI's API that started
        self._num_events = 0
        self._text_head = b""  # prefix of the deltas of the item `_text_id`, up to the sequence number
        self._text_id = ""

    def chunk(self, event: StreamResponseResponse) -> bytes:
        """Return the SSE event for one event of the service; empty for a usage event that an error follows."""
        kind = event.WhichOneof("event") or ""
        if event.client_data:
            self._response = ResponseObject.from_client_data(event.client_data)
        if kind == "usage":
            self._response_so_far["usage"] = to_usage(event.usage)
            return b""
        self._num_events = event.sequence_number + 1
        if is_known_id(_item_id(event, kind)):
            return self._known_call(event, kind)
        if kind == "output_text_delta" and not event.output_text_delta.logprobs:
            return self._text_delta(event.output_text_delta, event.sequence_number)
        if kind in _CUSTOM_KINDS and getattr(event, kind).custom:
            return _event(_CUSTOM_KINDS[kind], event.sequence_number, self._input_fields(event))
        return _event(_KINDS[kind], event.sequence_number, self._fields(event, kind))

    def _known_call(self, event: StreamResponseResponse, kind: str) -> bytes:
        """Return the events for one of a call of a tool of OpenAI's API: two for the last one, and none for others.

        The action of such a call is sent once it is complete. The events of its arguments have no counterpart there,
        and their numbers are left out.
        """
        if kind == "output_item_added":
            self._known_id = event.output_item_added.item.id
        if kind != "output_item_done":
            return b""
        number, fields = event.sequence_number, self._fields(event, kind)
        done = _event(_KINDS[kind], number, fields)
        if fields["item"]["id"] != self._known_id:  # the stream began within the call
            return done
        added = fields | {"item": fields["item"] | {"status": "in_progress"}}
        return _event(_KINDS["output_item_added"], number - 1, added) + done

    def whole(self, answer: CreateResponseResponse) -> bytes:
        """Return the body of an unstreamed answer."""
        return orjson.dumps(self._response.write(answer.response))

    def error(self, failure: Failure) -> bytes:
        """Return the last event of a failed stream."""
        error = {
            "code": _error_code(failure),
            "message": failure.message,
            "param": failure.field,
            "type": _error_type(failure),
        }
        failed = self._response_so_far | {"status": "failed", "error": error, "store": False}
        return _event("response.failed", self._num_events, {"response": failed})

    def _fields(self, event: StreamResponseResponse, kind: str) -> dict[str, Any]:
        """Return the event's fields except type and sequence number: the contract's fields have the callers' names."""
        inner = getattr(event, kind)
        if kind in _RESPONSES:
            self._response_so_far = self._response.write(inner.response)
            return {"response": self._response_so_far}
        writers: dict[str, Callable[[Any], Any]] = {"item": self._response.item, **_WRITERS}
        fields = {
            field.name: writers.get(field.name, _unchanged)(getattr(inner, field.name))
            for field in inner.DESCRIPTOR.fields
            if field.name != "custom"
        }
        if kind == "output_item_added":
            self._call_name = fields["item"].get("name", "")
            self._input = CustomInput()
        elif kind == "output_item_done":
            self._response_so_far.setdefault("output", []).append(fields["item"])  # a stream may begin late
        elif kind == "function_call_arguments_done":
            fields["name"] = self._call_name
        elif kind in _REASONING:
            fields["content_index"] = 0
        return fields

    def _input_fields(self, event: StreamResponseResponse) -> dict[str, Any]:
        """Return the fields of an event of a custom tool's input. Deltas of a call that began earlier are empty."""
        if event.HasField("function_call_arguments_done"):
            done = event.function_call_arguments_done
            input_text = {"input": input_of(done.arguments)}
            return {"item_id": done.item_id, "output_index": done.output_index, **input_text}
        delta = event.function_call_arguments_delta
        text = self._input.add(delta.delta) if self._input is not None else ""
        return {"item_id": delta.item_id, "output_index": delta.output_index, "delta": text}

    def _text_delta(self, delta: OutputTextDelta, number: int) -> bytes:
        if delta.item_id != self._text_id:
            self._text_id = delta.item_id
            fields = {
                "type": _TEXT_DELTA,
                "item_id": delta.item_id,
                "output_index": delta.output_index,
                "content_index": delta.content_index,
                "logprobs": [],
            }
            head = orjson.dumps(fields)[:-1]
            self._text_head = b"event: " + _TEXT_DELTA.encode() + b"\ndata: " + head + b',"sequence_number":'
        return b'%b%d,"delta":%b}\n\n' % (self._text_head, number, orjson.dumps(delta.delta))


def _item_id(event: StreamResponseResponse, kind: str) -> str:
    """Return the id of the item to which an event belongs; empty for events of the response."""
    if kind in {"output_item_added", "output_item_done"}:
        return str(getattr(event, kind).item.id)
    return str(getattr(getattr(event, kind), "item_id", ""))


def _unchanged(value: Any) -> Any:
    return value


def _event(kind: str, number: int, fields: dict[str, Any]) -> bytes:
    """Return a server-sent event."""
    data = orjson.dumps({"type": kind, "sequence_number": number, **fields})
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def _error_code(failure: Failure) -> str:
    """Return the code for a failed response, one of those that clients know."""
    if failure.status == 429:
        return "rate_limit_exceeded"
    return "invalid_prompt" if failure.reason in _INVALID else "server_error"


def _error_type(failure: Failure) -> str:
    """Return OpenAI's error type."""
    if failure.status == 429:
        return "rate_limit_error"
    return "invalid_request_error" if failure.status < 500 else "server_error"
