"""sluice.v1.TextGenerationService."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from sluice.v1 import text_generation_pb2, text_generation_pb2_grpc

from service.answering.generation import Answering, Context
from service.answering.idempotent_calls import IdempotentCalls
from service.answering.kind import TEXT_GENERATION


class TextGenerationServicer(text_generation_pb2_grpc.TextGenerationServiceServicer):
    """Implements TextGenerationService."""

    def __init__(self, answering: Answering, calls: IdempotentCalls) -> None:
        self._answering = answering
        self._calls = calls

    async def GenerateText(  # noqa: N802
        self, request: text_generation_pb2.GenerateTextRequest, context: Context
    ) -> text_generation_pb2.GenerateTextResponse:
        source = partial(self._answering.messages, TEXT_GENERATION, stream=False)
        async with aclosing(self._calls.messages("GenerateText", request, context, source)) as messages:
            return await self._answering.fold(TEXT_GENERATION, messages)

    def StreamGenerateText(  # noqa: N802
        self, request: text_generation_pb2.GenerateTextRequest, context: Context
    ) -> AsyncGenerator[text_generation_pb2.StreamGenerateTextResponse, None]:
        source = partial(self._answering.messages, TEXT_GENERATION, stream=True)
        return self._calls.messages("GenerateText", request, context, source)
