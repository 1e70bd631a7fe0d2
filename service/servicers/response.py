"""sluice.v1.ResponseService."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from sluice.v1 import response_event_pb2, response_pb2, response_pb2_grpc

from service.answering.generation import Answering, Context
from service.answering.kind import RESPONSE


class ResponseServicer(response_pb2_grpc.ResponseServiceServicer):
    """Implements ResponseService."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    async def CreateResponse(  # noqa: N802
        self, request: response_pb2.CreateResponseRequest, context: Context
    ) -> response_pb2.CreateResponseResponse:
        return await self._answering.whole(RESPONSE, request, context)

    def StreamResponse(  # noqa: N802
        self, request: response_pb2.CreateResponseRequest, context: Context
    ) -> AsyncGenerator[response_event_pb2.StreamResponseResponse, None]:
        return self._answering.stream(RESPONSE, request, context)
