"""sluice.v1.EmbeddingService: proto in → pipeline → encoder → proto out.

Only the loop's thread runs it. Whoever leaves the call leaves `engine.encode`, and that is the abort.
"""

from __future__ import annotations

from sluice.v1 import embedding_pb2, embedding_pb2_grpc, usage_pb2

from service.call import current_request_id, deadline_of
from service.pipeline.prepared import Identity
from service.servicers.catalog import Catalog
from service.servicers.generation import Context
from service.servicers.operation import Operation
from service.telemetry import Telemetry


class EmbeddingServicer(embedding_pb2_grpc.EmbeddingServiceServicer):
    """Turns texts into vectors."""

    def __init__(self, catalog: Catalog, telemetry: Telemetry) -> None:
        self._catalog = catalog
        self._telemetry = telemetry

    async def Embed(self, request: embedding_pb2.EmbedRequest, context: Context) -> embedding_pb2.EmbedResponse:  # noqa: N802
        model = self._catalog.encoder(request.model, request.serving.deployment)
        deadline = deadline_of(context)
        with Operation(self._telemetry, "embeddings", model.name, deadline) as operation:
            if request.HasField("dimensions"):
                operation.set({"gen_ai.embeddings.dimension.count": request.dimensions})
            prepared = await model.embeddings.prepare(request, current_request_id(), deadline)
            identity = Identity.now(model.description)
            operation.answered_by(identity)
            encoding = await model.engine.encode(prepared)
            operation.staged(
                [
                    ("queue", encoding.arrived, encoding.scheduled),
                    ("encode", encoding.scheduled, encoding.finished),
                ]
            )
            num_tokens = sum(map(len, prepared.inputs))
            operation.used("input", num_tokens)
            return embedding_pb2.EmbedResponse(
                id=identity.id,
                created=identity.created,
                model=model.name,
                embeddings=await model.embeddings.embeddings(request, encoding.vectors),
                usage=usage_pb2.Usage(prompt_tokens=num_tokens),
            )
