"""sluice.v1.ChatService."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from sluice.v1 import chat_pb2, chat_pb2_grpc

from service.answering.generation import Answering, Context
from service.answering.kind import CHAT


class ChatServicer(chat_pb2_grpc.ChatServiceServicer):
    """Implements ChatService."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    async def Chat(  # noqa: N802
        self, request: chat_pb2.ChatRequest, context: Context
    ) -> chat_pb2.ChatResponse:
        return await self._answering.whole(CHAT, request, context)

    def StreamChat(  # noqa: N802
        self, request: chat_pb2.ChatRequest, context: Context
    ) -> AsyncGenerator[chat_pb2.StreamChatResponse, None]:
        return self._answering.stream(CHAT, request, context)
