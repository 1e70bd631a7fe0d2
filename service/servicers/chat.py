"""sluice.v1.ChatService: proto in → pipeline → engine → proto out.

Owns the order of a stream's events and their numbers. Only the loop's thread runs it. It knows neither templates nor
schedulers; whoever leaves the call leaves `engine.generate`, and that is the abort.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias

from google.protobuf import timestamp_pb2
from grpc import aio
from sluice.v1 import chat_pb2, chat_pb2_grpc

from service.call import current_call
from service.engine.errors import InvalidRequest
from service.pipeline.fold import ChatFold
from service.pipeline.prepared_chat import PreparedChat
from service.servicers.catalog import Catalog, ServedModel
from service.servicers.observation import Observation
from service.telemetry import Telemetry

Context: TypeAlias = aio.ServicerContext[Any, Any]

# The engine's names of what may be wrong with a request, where the contract has others.
_FIELDS = {
    "prompt": "messages",
    "logprobs": "logprobs.top_logprobs",
    "max_tokens": "stopping.max_tokens",
    "min_tokens": "stopping.min_tokens",
    "stop": "stopping.stop",
    "temperature": "sampling.temperature",
    "top_k": "sampling.top_k",
    "top_p": "sampling.top_p",
    "min_p": "sampling.min_p",
    "typical_p": "sampling.typical_p",
    "repetition_penalty": "sampling.repetition_penalty",
    "frequency_penalty": "sampling.frequency_penalty",
    "presence_penalty": "sampling.presence_penalty",
    "logit_bias": "sampling.logit_bias",
}


class ChatServicer(chat_pb2_grpc.ChatServiceServicer):
    """Answers conversations."""

    def __init__(self, catalog: Catalog, telemetry: Telemetry, *, capture_content: bool) -> None:
        self._catalog = catalog
        self._telemetry = telemetry
        self._capture_content = capture_content

    async def Chat(self, request: chat_pb2.ChatRequest, context: Context) -> chat_pb2.ChatResponse:  # noqa: N802
        """The fold of the stream."""
        async with aclosing(self._events(request, context, stream=False)) as events:
            folding = ChatFold()
            async for event in events:
                folding.add(event)
            return folding.response

    async def StreamChat(  # noqa: N802
        self, request: chat_pb2.ChatRequest, context: Context
    ) -> AsyncGenerator[chat_pb2.StreamChatResponse, None]:
        async with aclosing(self._events(request, context, stream=True)) as events:
            async for event in events:
                yield event

    async def _events(
        self, request: chat_pb2.ChatRequest, context: Context, *, stream: bool
    ) -> AsyncGenerator[chat_pb2.StreamChatResponse, None]:
        """The numbered events of one chat. A failure is raised, after `usage` if there were tokens."""
        model = self._catalog.generator(request.model, request.serving.deployment)
        deadline = _deadline(context)
        with Observation(self._telemetry, model.name, deadline, stream=stream) as observation:
            if self._capture_content:
                observation.keep_content(request)
            sequence_number = 0
            async with aclosing(self._unnumbered(request, model, deadline, observation)) as events:
                async for event in events:
                    event.sequence_number = sequence_number
                    sequence_number += 1
                    observation.sent(event)
                    yield event

    async def _unnumbered(
        self, request: chat_pb2.ChatRequest, model: ServedModel, deadline: float | None, observation: Observation
    ) -> AsyncGenerator[chat_pb2.StreamChatResponse, None]:
        call = current_call()
        request_id = call.request_id if call else uuid.uuid4().hex
        has_tokens = False
        try:
            chat = await model.chat.prepare(request, request_id, deadline)
            async with model.engine.generate(chat.generation) as outputs:
                started = _started(model, chat)
                observation.admitted(started, chat.generation.n, chat)
                yield chat_pb2.StreamChatResponse(started=started)
                async for output in outputs:
                    has_tokens = True
                    observation.generated(output)
                    for event in chat.events(output):
                        yield event
        except Exception as error:
            if isinstance(error, InvalidRequest):
                error.field = _FIELDS.get(error.field, error.field)
            if has_tokens:
                yield chat_pb2.StreamChatResponse(usage=chat.usage())
            raise
        yield chat_pb2.StreamChatResponse(usage=chat.usage())
        yield chat_pb2.StreamChatResponse(completed=chat_pb2.ChatCompleted())


def _deadline(context: Context) -> float | None:
    """The call's deadline as an instant of `time.monotonic()`."""
    remaining: float | None = context.time_remaining()
    return None if remaining is None else time.monotonic() + remaining


def _started(model: ServedModel, chat: PreparedChat) -> chat_pb2.ChatStarted:
    created = timestamp_pb2.Timestamp()
    created.GetCurrentTime()
    return chat_pb2.ChatStarted(
        id=uuid.uuid4().hex,
        created=created,
        model=model.name,
        system_fingerprint=model.description.system_fingerprint,
        sampling=chat.sampling,
        stopping=chat.stopping,
    )
