"""sluice.v1.ResponseService: proto in → pipeline → engine → proto out.

Owns nothing: what a response becomes is the pipeline's, how it runs is `generation`'s. Only the loop's thread runs it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from sluice.v1 import response_event_pb2, response_pb2, response_pb2_grpc

from service.pipeline.prepared_response import prepare_response
from service.servicers.catalog import Catalog
from service.servicers.generation import Context, generate
from service.servicers.response_content import ResponseContent
from service.telemetry import Telemetry

_OPERATION = "chat"  # the GenAI conventions have no name of its own for it: OpenAI's both APIs are this operation


class ResponseServicer(response_pb2_grpc.ResponseServiceServicer):
    """Answers items with items."""

    def __init__(self, catalog: Catalog, telemetry: Telemetry, *, capture_content: bool) -> None:
        self._catalog = catalog
        self._telemetry = telemetry
        self._capture_content = capture_content

    async def CreateResponse(  # noqa: N802
        self, request: response_pb2.CreateResponseRequest, context: Context
    ) -> response_pb2.CreateResponseResponse:
        """What the stream's last event has."""
        async with aclosing(self._events(request, context, stream=False)) as events:
            async for event in events:
                last = event
        ended = last.completed if last.HasField("completed") else last.incomplete
        return response_pb2.CreateResponseResponse(response=ended.response)

    async def StreamResponse(  # noqa: N802
        self, request: response_pb2.CreateResponseRequest, context: Context
    ) -> AsyncGenerator[response_event_pb2.StreamResponseResponse, None]:
        async with aclosing(self._events(request, context, stream=True)) as events:
            async for event in events:
                yield event

    def _events(
        self, request: response_pb2.CreateResponseRequest, context: Context, *, stream: bool
    ) -> AsyncGenerator[response_event_pb2.StreamResponseResponse, None]:
        model = self._catalog.generator(request.model, request.serving.deployment)
        return generate(
            self._telemetry,
            _OPERATION,
            model,
            context,
            lambda request_id, deadline: prepare_response(model.chat, request, request_id, deadline),
            stream=stream,
            content=ResponseContent(request) if self._capture_content else None,
        )
