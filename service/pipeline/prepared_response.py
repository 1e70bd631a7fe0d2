"""One response's request, ready for the engine, and its way back.

Owns nothing but the joining: the chat that serves the request, and the machine that makes a response of its events. One
object a request, on the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sluice.v1 import chat_pb2, response_pb2, sampling_pb2, usage_pb2

from service.generation.errors import InvalidRequest
from service.generation.output import GenerationOutput
from service.generation.request import GenerationRequest
from service.pipeline.chat import ChatPipeline
from service.pipeline.prepared import Identity
from service.pipeline.prepared_chat import PreparedChat
from service.pipeline.response_events import ResponseEvents
from service.pipeline.response_input import ResponseChat
from service.pipeline.response_item import Event


class PreparedResponse:
    """A response that the engine can make, a `Prepared`."""

    prompt_fields = ("input",)

    def __init__(self, chat: PreparedChat, machine: ResponseEvents) -> None:
        self._chat = chat
        self._machine = machine

    @property
    def generations(self) -> Sequence[GenerationRequest]:
        """The chat's one request."""
        return self._chat.generations

    @property
    def sampling(self) -> sampling_pb2.SamplingParams:
        """The chat's."""
        return self._chat.sampling

    @property
    def stopping(self) -> sampling_pb2.StopParams:
        """The chat's."""
        return self._chat.stopping

    def started(self, identity: Identity) -> list[Event]:
        """The events that a stream begins with."""
        return self._take(self._chat.started(identity))

    def events(self, output: GenerationOutput) -> list[Event]:
        """What the engine's next output adds to the stream."""
        return self._take(self._chat.events(output))

    def completed(self) -> list[Event]:
        """The event that a whole stream ends with."""
        return self._take(self._chat.completed())

    def broken_off(self) -> list[Event]:
        """The event that a stream ends with before its error."""
        return [Event(usage=self.usage())]

    def finish_reasons(self) -> Sequence[chat_pb2.FinishReason]:
        """Why the answer ended, if it did."""
        return self._chat.finish_reasons()

    def usage(self) -> usage_pb2.Usage:
        """What the outputs so far cost."""
        return self._chat.usage()

    def _take(self, events: Iterable[chat_pb2.StreamChatResponse]) -> list[Event]:
        return [each for event in events for each in self._machine.take(event)]


async def prepare_response(
    pipeline: ChatPipeline, request: response_pb2.CreateResponseRequest, request_id: str, deadline: float | None
) -> PreparedResponse:
    """Make a validated request ready to run. `deadline` is a `time.monotonic()` instant in seconds.

    Raises what `ChatPipeline.prepare` does, with the names of this request's fields.
    """
    form = ResponseChat(request)
    try:
        chat = await pipeline.prepare(form.request, request_id, deadline)
    except InvalidRequest as error:
        error.field = form.field(error.field)
        raise
    max_tool_calls = request.max_tool_calls if request.HasField("max_tool_calls") else None
    return PreparedResponse(chat, ResponseEvents(max_tool_calls=max_tool_calls, metadata=request.metadata))
