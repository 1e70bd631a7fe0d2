"""sluice.v1.ChatService."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial

from sluice.v1 import chat_pb2, chat_pb2_grpc

from service.answering.generation import Answering, Context
from service.answering.idempotent_calls import IdempotentCalls
from service.answering.kind import CHAT


class ChatServicer(chat_pb2_grpc.ChatServiceServicer):
    """Implements ChatService."""

    def __init__(self, answering: Answering, calls: IdempotentCalls) -> None:
        self._answering = answering
        self._calls = calls

    async def Chat(  # noqa: N802
        self, request: chat_pb2.ChatRequest, context: Context
    ) -> chat_pb2.ChatResponse:
        return await self._calls.whole("Chat", request, context, partial(self._answering.whole, CHAT))

    def StreamChat(  # noqa: N802
        self, request: chat_pb2.ChatRequest, context: Context
    ) -> AsyncGenerator[chat_pb2.StreamChatResponse, None]:
        return self._calls.stream("StreamChat", request, context, partial(self._answering.stream, CHAT))
