"""A chat's events as a response's.

Owns the order of a response's events, and the response as it grows: the whole one is what the last event has. One
object a response, called on the loop. Pure; knows neither requests' items nor engines, and doesn't number the events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sluice.v1 import chat_pb2, logprobs_pb2, response_event_pb2, response_item_pb2

from service.pipeline.response_item import Event, OpenCall, OpenItem, OpenMessage, OpenReasoning

_COMPLETED = response_item_pb2.RESPONSE_STATUS_COMPLETED
_INCOMPLETE = response_item_pb2.RESPONSE_STATUS_INCOMPLETE
_CUT_OFF = frozenset({chat_pb2.FINISH_REASON_LENGTH, chat_pb2.FINISH_REASON_CONTENT_FILTER})


class ResponseEvents:
    """Takes the events of a chat with one choice. `response` is the response so far.

    An answer that ends by itself without text and calls has an empty message, so that it can be sent back.
    """

    def __init__(self, *, max_tool_calls: int | None = None, metadata: Mapping[str, str] | None = None) -> None:
        """`max_tool_calls` leaves out the calls beyond; `metadata` is the request's."""
        self.response = response_item_pb2.Response(
            status=response_item_pb2.RESPONSE_STATUS_IN_PROGRESS, metadata=metadata or {}
        )
        self._max_tool_calls = max_tool_calls
        self._open: OpenItem | None = None
        self._early_logprobs: list[logprobs_pb2.TokenLogprob] = []  # of a message that has no text yet

    def take(self, event: chat_pb2.StreamChatResponse) -> Iterator[Event]:
        """The events that the chat's next one becomes. They have to be read to their end."""
        match event.WhichOneof("event"):
            case "started":
                yield from self._start(event.started)
            case "content_delta":
                yield from self._add_content(event.content_delta)
            case "reasoning_delta":
                yield from self._add_reasoning(event.reasoning_delta)
            case "tool_call_delta":
                yield from self._add_tool_call(event.tool_call_delta)
            case "choice_finished":
                yield from self._finish(event.choice_finished.finish_reason)
            case "usage":
                self.response.usage.CopyFrom(event.usage)
            case "completed" if self.response.status == _COMPLETED:
                yield Event(completed=response_event_pb2.ResponseCompleted(response=self.response))
            case "completed":
                yield Event(incomplete=response_event_pb2.ResponseIncomplete(response=self.response))

    def _start(self, started: chat_pb2.ChatStarted) -> Iterator[Event]:
        response = self.response
        response.id, response.model = started.id, started.model
        response.system_fingerprint = started.system_fingerprint
        response.created.CopyFrom(started.created)
        response.sampling.CopyFrom(started.sampling)
        response.stopping.CopyFrom(started.stopping)
        yield Event(created=response_event_pb2.ResponseCreated(response=response))
        yield Event(in_progress=response_event_pb2.ResponseInProgress(response=response))

    def _add_content(self, delta: chat_pb2.ContentDelta) -> Iterator[Event]:
        if not isinstance(self._open, OpenMessage):
            if not delta.text:  # the tokens so far make no character yet
                self._early_logprobs.extend(delta.logprobs)
                return
            yield from self._close(_COMPLETED)
            self._open = message = OpenMessage(self.response.id, len(self.response.output))
            yield from message.begin()
            delta = chat_pb2.ContentDelta(text=delta.text, logprobs=[*self._early_logprobs, *delta.logprobs])
            self._early_logprobs = []
        yield self._open.add(delta)

    def _add_reasoning(self, delta: chat_pb2.ReasoningDelta) -> Iterator[Event]:
        if not isinstance(self._open, OpenReasoning):
            yield from self._close(_COMPLETED)
            self._open = reasoning = OpenReasoning(self.response.id, len(self.response.output))
            yield from reasoning.begin()
        yield self._open.add(delta)

    def _add_tool_call(self, delta: chat_pb2.ToolCallDelta) -> Iterator[Event]:
        if self._max_tool_calls is not None and delta.tool_call_index >= self._max_tool_calls:
            return
        if delta.HasField("id"):
            yield from self._close(_COMPLETED)
            self._open = call = OpenCall(self.response.id, len(self.response.output))
            yield from call.begin(delta.id, delta.name)
        if delta.arguments and isinstance(self._open, OpenCall):
            yield self._open.add(delta)

    def _finish(self, reason: chat_pb2.FinishReason) -> Iterator[Event]:
        status = _INCOMPLETE if reason in _CUT_OFF else _COMPLETED
        yield from self._close(status)
        if status == _COMPLETED and not any(not item.HasField("reasoning") for item in self.response.output):
            self._open = message = OpenMessage(self.response.id, len(self.response.output))
            yield from message.begin()
            yield from self._close(status)
        self.response.status = status
        if status == _INCOMPLETE:
            self.response.incomplete_reason = reason

    def _close(self, status: response_item_pb2.ResponseStatus) -> Iterator[Event]:
        """End the open item, if there is one."""
        if self._open is not None:
            yield from self._open.end(status)
            self.response.output.append(self._open.item)
            self._open = None
