"""sluice.v1.BatchService."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from sluice.v1 import batch_pb2, batch_pb2_grpc

from service.answering.batches.batches import Batches
from service.answering.batches.request_stream import complete_stream, read_after_rejection
from service.answering.generation import Context


class BatchServicer(batch_pb2_grpc.BatchServiceServicer):
    """Implements BatchService."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches

    async def CreateBatch(  # noqa: N802
        self,
        request_iterator: AsyncIterator[batch_pb2.CreateBatchRequest],
        context: Context,
    ) -> batch_pb2.CreateBatchResponse:
        messages = complete_stream(request_iterator, context)
        async with read_after_rejection(request_iterator), aclosing(messages):
            return batch_pb2.CreateBatchResponse(batch=await self._batches.create(messages))

    async def GetBatch(self, request: batch_pb2.GetBatchRequest, context: Context) -> batch_pb2.GetBatchResponse:  # noqa: ARG002, N802
        return batch_pb2.GetBatchResponse(batch=await self._batches.get(request.id))

    async def ListBatches(  # noqa: N802
        self,
        request: batch_pb2.ListBatchesRequest,
        context: Context,  # noqa: ARG002
    ) -> batch_pb2.ListBatchesResponse:
        return await self._batches.list(request)

    async def CancelBatch(  # noqa: N802
        self,
        request: batch_pb2.CancelBatchRequest,
        context: Context,  # noqa: ARG002
    ) -> batch_pb2.CancelBatchResponse:
        return batch_pb2.CancelBatchResponse(batch=await self._batches.cancel(request.id))

    async def DeleteBatch(  # noqa: N802
        self,
        request: batch_pb2.DeleteBatchRequest,
        context: Context,  # noqa: ARG002
    ) -> batch_pb2.DeleteBatchResponse:
        await self._batches.delete(request.id)
        return batch_pb2.DeleteBatchResponse()

    async def StreamBatchResults(  # noqa: N802
        self,
        request: batch_pb2.StreamBatchResultsRequest,
        context: Context,  # noqa: ARG002
    ) -> AsyncGenerator[batch_pb2.StreamBatchResultsResponse, None]:
        async with aclosing(self._batches.results(request)) as results:
            async for result in results:
                yield result
