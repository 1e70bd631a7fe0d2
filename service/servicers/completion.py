"""sluice.v1.CompletionService: proto in → pipeline → engine → proto out.

Owns nothing: what a prompt becomes is the pipeline's, how it runs is `generation`'s. Only the loop's thread runs it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from sluice.v1 import completion_pb2, completion_pb2_grpc

from service.pipeline.completion_fold import CompletionFold
from service.servicers.catalog import Catalog
from service.servicers.content import CompletionContent
from service.servicers.generation import Context, generate
from service.telemetry import Telemetry


class CompletionServicer(completion_pb2_grpc.CompletionServiceServicer):
    """Continues prompts."""

    def __init__(self, catalog: Catalog, telemetry: Telemetry, *, capture_content: bool) -> None:
        self._catalog = catalog
        self._telemetry = telemetry
        self._capture_content = capture_content

    async def Complete(  # noqa: N802
        self, request: completion_pb2.CompleteRequest, context: Context
    ) -> completion_pb2.CompleteResponse:
        """The fold of the stream."""
        async with aclosing(self._events(request, context, stream=False)) as events:
            folding = CompletionFold()
            async for event in events:
                folding.add(event)
            return folding.response

    async def StreamComplete(  # noqa: N802
        self, request: completion_pb2.CompleteRequest, context: Context
    ) -> AsyncGenerator[completion_pb2.StreamCompleteResponse, None]:
        async with aclosing(self._events(request, context, stream=True)) as events:
            async for event in events:
                yield event

    def _events(
        self, request: completion_pb2.CompleteRequest, context: Context, *, stream: bool
    ) -> AsyncGenerator[completion_pb2.StreamCompleteResponse, None]:
        model = self._catalog.generator(request.model, request.serving.deployment)
        return generate(
            self._telemetry,
            "text_completion",
            model,
            context,
            lambda request_id, deadline: model.completion.prepare(request, request_id, deadline),
            stream=stream,
            content=CompletionContent(request) if self._capture_content else None,
        )
