"""sluice.v1.ChatService."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
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
        source = partial(self._answering.messages, CHAT, stream=False)
        async with aclosing(self._calls.messages("Chat", request, context, source)) as messages:
            return await self._answering.fold(CHAT, messages)

    def StreamChat(  # noqa: N802
        self, request: chat_pb2.ChatRequest, context: Context
    ) -> AsyncGenerator[chat_pb2.StreamChatResponse, None]:
        source = partial(self._answering.messages, CHAT, stream=True)
        return self._calls.messages("Chat", request, context, source)
