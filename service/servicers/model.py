"""sluice.v1.ModelService over the catalogue. Only the loop's thread runs it."""

from __future__ import annotations

from sluice.v1 import model_pb2, model_pb2_grpc

from service.servicers.catalog import Catalog


class ModelServicer(model_pb2_grpc.ModelServiceServicer):
    """Tells which models there are."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def ListModels(self, request: model_pb2.ListModelsRequest, context: object) -> model_pb2.ListModelsResponse:  # noqa: ARG002, N802
        return model_pb2.ListModelsResponse(models=[model.description for model in self._catalog])

    async def GetModel(self, request: model_pb2.GetModelRequest, context: object) -> model_pb2.GetModelResponse:  # noqa: ARG002, N802
        return model_pb2.GetModelResponse(model=self._catalog.leading(request.model).description)
