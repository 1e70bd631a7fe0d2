"""sluice.v1.ModelService."""

from __future__ import annotations

import asyncio
import time

from sluice.v1 import load_pb2, model_pb2, model_pb2_grpc

from service.contract.load import load_message
from service.contract.model import model_message
from service.registry.models import Registry
from service.telemetry import Telemetry


class ModelServicer(model_pb2_grpc.ModelServiceServicer):
    """Tells which models there are, and how they fare."""

    def __init__(self, registry: Registry, telemetry: Telemetry) -> None:
        self._registry = registry
        self._telemetry = telemetry
        self._started_ns = time.time_ns()

    async def ListModels(self, request: model_pb2.ListModelsRequest, context: object) -> model_pb2.ListModelsResponse:  # noqa: ARG002, N802
        return model_pb2.ListModelsResponse(models=[model_message(model.description) for model in self._registry])

    async def GetModel(self, request: model_pb2.GetModelRequest, context: object) -> model_pb2.GetModelResponse:  # noqa: ARG002, N802
        return model_pb2.GetModelResponse(model=model_message(self._registry.leading(request.model).description))

    async def GetLoad(self, request: load_pb2.GetLoadRequest, context: object) -> load_pb2.GetLoadResponse:  # noqa: ARG002, N802
        stats = {model.name: model.engine.stats() for model in self._registry.loaded if self._registry.find(model.name)}
        entities = list(self._registry.endpoints.loads())
        # Off the loop: all metrics are read, which may be thousands.
        samples = await asyncio.to_thread(self._telemetry.samples)
        return load_message(self._started_ns, stats, entities, samples)
