"""sluice.v1.ChatService: proto in → pipeline → engine → proto out.

Owns nothing: what a chat becomes is the pipeline's, how it runs is `generation`'s. Only the loop's thread runs it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from sluice.v1 import chat_pb2, chat_pb2_grpc

from service.pipeline.fold import ChatFold
from service.servicers.catalog import Catalog
from service.servicers.content import ChatContent
from service.servicers.generation import Context, generate
from service.telemetry import Telemetry


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

    def _events(
        self, request: chat_pb2.ChatRequest, context: Context, *, stream: bool
    ) -> AsyncGenerator[chat_pb2.StreamChatResponse, None]:
        model = self._catalog.generator(request.model, request.serving.deployment)
        return generate(
            self._telemetry,
            "chat",
            model,
            context,
            lambda request_id, deadline: model.chat.prepare(request, request_id, deadline),
            stream=stream,
            content=ChatContent(request) if self._capture_content else None,
        )
