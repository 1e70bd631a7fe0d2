"""sluice.v1.CompletionService."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from sluice.v1 import completion_pb2, completion_pb2_grpc

from service.answering.generation import Answering, Context
from service.answering.idempotent_calls import IdempotentCalls
from service.answering.kind import COMPLETION


class CompletionServicer(completion_pb2_grpc.CompletionServiceServicer):
    """Implements CompletionService."""

    def __init__(self, answering: Answering, calls: IdempotentCalls) -> None:
        self._answering = answering
        self._calls = calls

    async def Complete(  # noqa: N802
        self, request: completion_pb2.CompleteRequest, context: Context
    ) -> completion_pb2.CompleteResponse:
        source = partial(self._answering.messages, COMPLETION, stream=False)
        async with aclosing(self._calls.messages("Complete", request, context, source)) as messages:
            return await self._answering.fold(COMPLETION, messages)

    def StreamComplete(  # noqa: N802
        self, request: completion_pb2.CompleteRequest, context: Context
    ) -> AsyncGenerator[completion_pb2.StreamCompleteResponse, None]:
        source = partial(self._answering.messages, COMPLETION, stream=True)
        return self._calls.messages("Complete", request, context, source)
