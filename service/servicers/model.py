"""sluice.v1.ModelService. `service.interceptors.auth` decides who may change models."""

from __future__ import annotations

import asyncio
import time

from sluice.v1 import load_pb2, model_pb2, model_pb2_grpc

from service.call import current_caller
from service.contract.load import load_message
from service.contract.model import model_message, to_loaded_model
from service.deployment.shared_deployment import SharedDeployment
from service.generation.caller import Scope
from service.observability.telemetry import Telemetry
from service.registry.models import Registry, ServedModel


class ModelServicer(model_pb2_grpc.ModelServiceServicer):
    """Tells which models there are, and how they fare, and changes what is served."""

    def __init__(self, registry: Registry, shared: SharedDeployment, telemetry: Telemetry) -> None:
        self._registry = registry
        self._shared = shared
        self._telemetry = telemetry
        self._started_ns = time.time_ns()

    async def ListModels(self, request: model_pb2.ListModelsRequest, context: object) -> model_pb2.ListModelsResponse:  # noqa: ARG002, N802
        # Reasons have paths and the words of libraries.
        tells = Scope.ADMIN in current_caller().scopes
        failed = [
            model_pb2.FailedModel(name=name, reason=reason if tells else "")
            for name, reason in self._registry.failed.items()
        ]
        return model_pb2.ListModelsResponse(models=map(_message, self._registry), failed_models=failed)

    async def GetModel(self, request: model_pb2.GetModelRequest, context: object) -> model_pb2.GetModelResponse:  # noqa: ARG002, N802
        return model_pb2.GetModelResponse(model=_message(self._registry.leading(request.model)))

    async def GetLoad(self, request: load_pb2.GetLoadRequest, context: object) -> load_pb2.GetLoadResponse:  # noqa: ARG002, N802
        stats = {model.name: model.engine.stats() for model in self._registry.loaded if self._registry.find(model.name)}
        entities = list(self._registry.endpoints.loads())
        # Off the loop: all metrics are read, which may be thousands.
        samples = await asyncio.to_thread(self._telemetry.samples)
        return load_message(self._started_ns, stats, entities, samples)

    async def LoadModel(self, request: model_pb2.LoadModelRequest, context: object) -> model_pb2.LoadModelResponse:  # noqa: ARG002, N802
        served = await self._shared.to_its_end(self._shared.load_model(to_loaded_model(request)))
        return model_pb2.LoadModelResponse(model=_message(served))

    async def UnloadModel(  # noqa: N802
        self,
        request: model_pb2.UnloadModelRequest,
        context: object,  # noqa: ARG002
    ) -> model_pb2.UnloadModelResponse:
        await self._shared.to_its_end(self._shared.unload_model(request.model))
        return model_pb2.UnloadModelResponse()

    async def SleepModel(self, request: model_pb2.SleepModelRequest, context: object) -> model_pb2.SleepModelResponse:  # noqa: ARG002, N802
        await self._shared.to_its_end(self._shared.sleep(request.model))
        return model_pb2.SleepModelResponse()

    async def WakeModel(self, request: model_pb2.WakeModelRequest, context: object) -> model_pb2.WakeModelResponse:  # noqa: ARG002, N802
        await self._shared.to_its_end(self._shared.wake(request.model))
        return model_pb2.WakeModelResponse()


def _message(model: ServedModel) -> model_pb2.Model:
    return model_message(model.description, is_asleep=model.engine.is_asleep)
