"""A chat pipeline without templates, for tests of what stands around it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from sluice.v1 import chat_pb2, sampling_pb2

from service.generation.output import GenerationOutput
from service.generation.parameters import SamplingParams, StopParams
from service.generation.request import GenerationRequest
from service.pipeline.prepared_chat import AnswerForm, PreparedChat
from service.pipeline.reasoning import Thinking
from service.pipeline.serving import resolve_serving
from service.pipeline.workers import PipelineLimits, Workers
from tests.engine.fakes import ByteTokenizer


class PlainChat(PreparedChat):
    """A prepared chat whose answer is what the engine says; `before_events` is called with each output."""

    before_events: Callable[[], None]

    def events(self, output: GenerationOutput) -> list[chat_pb2.StreamChatResponse]:
        self.before_events()
        return super().events(output)


@dataclass
class PlainPipeline:
    """Prepares chats; raises `fail_with` at once, or `fail_after_leaving` when the caller has left, if they are set."""

    fail_with: Exception | None = None
    fail_after_leaving: Exception | None = None
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    before_events: Callable[[], None] = lambda: None
    workers: Workers = field(default_factory=lambda: Workers(PipelineLimits()))
    compiler: None = None

    def close(self) -> None:
        self.workers.close()

    async def prepare(self, request: chat_pb2.ChatRequest, request_id: str, deadline: float | None) -> PlainChat:
        self.entered.set()
        if self.fail_with is not None:
            raise self.fail_with
        if self.fail_after_leaving is not None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise self.fail_after_leaving from None
        text = "".join(part.text for message in request.messages for part in message.content)
        stopping = request.stopping
        serving = resolve_serving(request.serving, deadline)
        generation = GenerationRequest(
            request_id=request_id,
            prompt_token_ids=list(text.encode()),
            sampling=SamplingParams(seed=1),
            stopping=StopParams(max_tokens=stopping.max_tokens if stopping.HasField("max_tokens") else None),
            n=request.n or 1,
            deadline=serving.deadline,
            truncates_at_deadline=serving.truncates,
        )
        sampling = sampling_pb2.SamplingParams(temperature=1, top_p=1, seed=1)
        form = AnswerForm(markers=None, thinking=Thinking.OFF, syntax=None, names=())
        chat = PlainChat(generation, sampling, stopping, ByteTokenizer(), form)
        chat.before_events = self.before_events
        return chat
