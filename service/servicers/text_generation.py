"""sluice.v1.TextGenerationService."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from sluice.v1 import text_generation_pb2, text_generation_pb2_grpc

from service.answering.generation import Answering, Context
from service.answering.kind import TEXT_GENERATION


class TextGenerationServicer(text_generation_pb2_grpc.TextGenerationServiceServicer):
    """Implements TextGenerationService."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    async def GenerateText(  # noqa: N802
        self, request: text_generation_pb2.GenerateTextRequest, context: Context
    ) -> text_generation_pb2.GenerateTextResponse:
        return await self._answering.whole(TEXT_GENERATION, request, context)

    def StreamGenerateText(  # noqa: N802
        self, request: text_generation_pb2.GenerateTextRequest, context: Context
    ) -> AsyncGenerator[text_generation_pb2.StreamGenerateTextResponse, None]:
        return self._answering.stream(TEXT_GENERATION, request, context)
