"""sluice.v1.TextGenerationService: proto in → pipeline → engine → proto out.

Owns the check of the model's version; what a prompt becomes is the pipeline's, how it runs is `generation`'s. Only the
loop's thread runs it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from sluice.v1 import text_generation_pb2, text_generation_pb2_grpc

from service.errors import VersionNotFound
from service.pipeline.text_fold import TextFold
from service.pipeline.text_generation import prepare_text
from service.servicers.catalog import Catalog
from service.servicers.generation import Context, generate
from service.servicers.text_content import TextContent
from service.telemetry import Telemetry


class TextGenerationServicer(text_generation_pb2_grpc.TextGenerationServiceServicer):
    """Continues raw prompts and tells where the time went."""

    def __init__(self, catalog: Catalog, telemetry: Telemetry, *, capture_content: bool) -> None:
        self._catalog = catalog
        self._telemetry = telemetry
        self._capture_content = capture_content

    async def GenerateText(  # noqa: N802
        self, request: text_generation_pb2.GenerateTextRequest, context: Context
    ) -> text_generation_pb2.GenerateTextResponse:
        """The fold of the stream."""
        async with aclosing(self._events(request, context, stream=False)) as events:
            folding = TextFold()
            async for event in events:
                folding.add(event)
            return folding.response

    async def StreamGenerateText(  # noqa: N802
        self, request: text_generation_pb2.GenerateTextRequest, context: Context
    ) -> AsyncGenerator[text_generation_pb2.StreamGenerateTextResponse, None]:
        async with aclosing(self._events(request, context, stream=True)) as events:
            async for event in events:
                yield event

    def _events(
        self, request: text_generation_pb2.GenerateTextRequest, context: Context, *, stream: bool
    ) -> AsyncGenerator[text_generation_pb2.StreamGenerateTextResponse, None]:
        model = self._catalog.generator(request.model, request.serving.deployment)
        if request.model_version and request.model_version != model.description.version:
            raise VersionNotFound(model.name, request.model_version, model.description.version)
        return generate(
            self._telemetry,
            "text_completion",
            model,
            context,
            lambda request_id, deadline: prepare_text(
                request,
                request_id,
                deadline,
                tokenizer=model.tokenizer,
                max_model_len=model.engine.max_model_len,
                workers=model.completion.workers,
            ),
            stream=stream,
            content=TextContent(request) if self._capture_content else None,
        )
