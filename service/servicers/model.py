"""sluice.v1.ModelService."""

from __future__ import annotations

from sluice.v1 import model_pb2, model_pb2_grpc

from service.contract.model import model_message
from service.registry.models import Registry


class ModelServicer(model_pb2_grpc.ModelServiceServicer):
    """Tells which models there are."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def ListModels(self, request: model_pb2.ListModelsRequest, context: object) -> model_pb2.ListModelsResponse:  # noqa: ARG002, N802
        return model_pb2.ListModelsResponse(models=[model_message(model.description) for model in self._registry])

    async def GetModel(self, request: model_pb2.GetModelRequest, context: object) -> model_pb2.GetModelResponse:  # noqa: ARG002, N802
        return model_pb2.GetModelResponse(model=model_message(self._registry.leading(request.model).description))
