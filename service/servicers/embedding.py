"""sluice.v1.EmbeddingService."""

from __future__ import annotations

from sluice.v1 import embedding_pb2, embedding_pb2_grpc

from service.answering.embeddings import Embeddings
from service.calls.call import Timed


class EmbeddingServicer(embedding_pb2_grpc.EmbeddingServiceServicer):
    """Implements EmbeddingService."""

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings

    async def Embed(self, request: embedding_pb2.EmbedRequest, context: Timed) -> embedding_pb2.EmbedResponse:  # noqa: N802
        return await self._embeddings.embed(request, context)
