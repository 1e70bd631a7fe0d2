"""Responses: events to the stream's messages, and the response as it is generated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sluice.v1 import logprobs_pb2, response_event_pb2, response_item_pb2, response_pb2, tool_pb2

from service.contract.parts.answer import FINISH_REASONS, logprob_messages, timestamp, usage_message
from service.contract.parts.conversation import reasoning_effort_value
from service.contract.parts.parameters import sampling_message, stopping_message
from service.contract.responses.response_item import Event as Message
from service.contract.responses.response_item import OpenCall, OpenItem, OpenMessage, OpenReasoning
from service.generation.outputs.events import (
    ChoiceFinished,
    Completed,
    Event,
    Reasoning,
    Started,
    Text,
    ToolArguments,
    ToolCall,
    Usage,
)
from service.generation.outputs.output import FinishReason

_COMPLETED = response_item_pb2.RESPONSE_STATUS_COMPLETED
_INCOMPLETE = response_item_pb2.RESPONSE_STATUS_INCOMPLETE


class ResponseRenderer:
    """Renders the events of an answer with one choice, without sequence numbers. `response` is the response so far.

    An answer without text and calls gets an empty message, so that clients can send it back.
    """

    def __init__(self, request: response_pb2.CreateResponseRequest) -> None:
        self.response = response_item_pb2.Response(
            status=response_item_pb2.RESPONSE_STATUS_IN_PROGRESS,
            metadata=request.metadata,
            previous_response_id=request.previous_response_id,
            stored=request.store,
            background=request.background,
            conversation=request.conversation,
        )
        self._functions = {tool.function.name: tool.function for tool in request.tools}
        self._open: OpenItem | None = None
        self._early_logprobs: list[logprobs_pb2.TokenLogprob] = []  # of a message without text yet

    def render(self, events: Sequence[Event]) -> list[Message]:
        """Return the messages for the events of one output, or for one other event."""
        return [message for event in events for message in self._render(event)]

    def _render(self, event: Event) -> Iterator[Message]:
        """Yield the messages of one event."""
        match event:
            case Text(_, text, logprobs):
                yield from self._add_text(text, logprob_messages(logprobs))
            case Reasoning(_, text):
                yield from self._add_reasoning(text)
            case ToolCall(_, _, call_id, name):
                yield from self._close(_COMPLETED)
                function = self._functions.get(name) or tool_pb2.FunctionDefinition(name=name)
                self._open = call = OpenCall(self.response.id, len(self.response.output), function)
                yield from call.begin(call_id)
            case ToolArguments(_, _, text) if isinstance(self._open, OpenCall):
                yield self._open.add(text)
            case ChoiceFinished(_, reason):
                yield from self._finish(reason)
            case Started():
                yield from self._start(event)
            case Usage() | Completed():
                yield from self._end(event)

    def _end(self, event: Usage | Completed) -> Iterator[Message]:
        """Yield the messages that end the stream. Without a completed response only the usage is sent."""
        response = self.response
        if isinstance(event, Usage):
            response.usage.CopyFrom(usage_message(event))
            if response.status == response_item_pb2.RESPONSE_STATUS_IN_PROGRESS:  # the stream ends with an error
                yield Message(usage=response.usage)
            return
        response.receipt = event.receipt
        if response.status == _COMPLETED:
            if event.ended_ns:
                response.completed.CopyFrom(timestamp(event.ended_ns))
            yield Message(completed=response_event_pb2.ResponseCompleted(response=response))
        else:
            yield Message(incomplete=response_event_pb2.ResponseIncomplete(response=response))

    def _start(self, started: Started) -> Iterator[Message]:
        """Yield the messages that begin the stream."""
        response = self.response
        response.id, response.model = started.id, started.model
        response.system_fingerprint = started.fingerprint
        response.created.CopyFrom(timestamp(started.created_ns))
        response.sampling.CopyFrom(sampling_message(started.sampling))
        response.stopping.CopyFrom(stopping_message(started.stopping))
        response.reasoning_effort = reasoning_effort_value(started.reasoning_effort)
        yield Message(created=response_event_pb2.ResponseCreated(response=response))
        yield Message(in_progress=response_event_pb2.ResponseInProgress(response=response))

    def _add_text(self, text: str, logprobs: list[logprobs_pb2.TokenLogprob]) -> Iterator[Message]:
        """Add text to the open message, which is opened if it isn't yet."""
        if not isinstance(self._open, OpenMessage):
            if not text:  # the tokens form no complete character yet
                self._early_logprobs.extend(logprobs)
                return
            yield from self._close(_COMPLETED)
            self._open = message = OpenMessage(self.response.id, len(self.response.output))
            yield from message.begin()
            logprobs = [*self._early_logprobs, *logprobs]
            self._early_logprobs = []
        yield self._open.add(text, logprobs)

    def _add_reasoning(self, text: str) -> Iterator[Message]:
        """Add text to the open reasoning, which is opened if it isn't yet."""
        if not isinstance(self._open, OpenReasoning):
            yield from self._close(_COMPLETED)
            self._open = reasoning = OpenReasoning(self.response.id, len(self.response.output))
            yield from reasoning.begin()
        yield self._open.add(text)

    def _finish(self, reason: FinishReason) -> Iterator[Message]:
        """Close the open item; an answer without any has an empty message."""
        status = _INCOMPLETE if reason is FinishReason.LENGTH else _COMPLETED
        yield from self._close(status)
        if status == _COMPLETED and not any(not item.HasField("reasoning") for item in self.response.output):
            self._open = message = OpenMessage(self.response.id, len(self.response.output))
            yield from message.begin()
            yield from self._close(status)
        self.response.status = status
        if status == _INCOMPLETE:
            self.response.incomplete_reason = FINISH_REASONS[reason]

    def _close(self, status: response_item_pb2.ResponseStatus) -> Iterator[Message]:
        """End the open item, if there is one."""
        if self._open is not None:
            yield from self._open.end(status)
            self.response.output.append(self._open.item)
            self._open = None


class ResponseFold:
    """Adds the messages of a stream one by one; `response` is that of the last message."""

    def __init__(self) -> None:
        self.response = response_pb2.CreateResponseResponse()

    def add(self, message: Message) -> None:
        """Add the next message."""
        kind = message.WhichOneof("event") or ""
        if kind in {"completed", "incomplete"}:
            self.response.response.CopyFrom(getattr(message, kind).response)
