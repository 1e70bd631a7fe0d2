"""sluice.v1.ModelService. `service.interceptors.auth` decides who may change models."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from sluice.v1 import load_pb2, model_pb2, model_pb2_grpc

from service.answering.admission import admitted
from service.calls.call import Timed, current_caller, deadline_of
from service.contract.models.load import load_message
from service.contract.models.model import model_message, to_loaded_model
from service.contract.models.operation import operation_message
from service.contract.parts.answer import to_keep_s
from service.contract.parts.page import page_of
from service.deployment.model_changes import ModelChanges
from service.deployment.operations.shared_operations import SharedOperations
from service.deployment.residency.residency import Residency
from service.generation.caller import Scope
from service.generation.errors import EngineAsleep
from service.observability.telemetry import Telemetry
from service.quota.quota import Quota
from service.registry.models import ServedModel
from service.registry.registry import Registry

_RETRY_S: Final = 1.0


class ModelServicer(model_pb2_grpc.ModelServiceServicer):
    """Lists models and their load, and changes which are served."""

    def __init__(  # noqa: PLR0917
        self,
        registry: Registry,
        changes: ModelChanges,
        operations: SharedOperations,
        telemetry: Telemetry,
        residency: Residency,
        quota: Quota,
    ) -> None:
        self._registry = registry
        self._residency = residency
        self._changes = changes
        self._operations = operations
        self._telemetry = telemetry
        self._quota = quota
        self._started_ns = time.time_ns()

    async def ListModels(self, request: model_pb2.ListModelsRequest, context: object) -> model_pb2.ListModelsResponse:  # noqa: ARG002, N802
        caller = current_caller()
        visible = self._registry.visible_to(caller)
        shows_reasons = Scope.ADMIN in caller.scopes  # they contain paths and messages of libraries
        failed = [
            model_pb2.FailedModel(name=name, reason=reason if shows_reasons else "")
            for name, reason in visible.failed.items()
            if not request.page_token
        ]
        page, token = page_of(list(visible), lambda model: model.name, request, "models")
        models = map(self._message, page)
        return model_pb2.ListModelsResponse(models=models, failed_models=failed, next_page_token=token)

    async def GetModel(self, request: model_pb2.GetModelRequest, context: object) -> model_pb2.GetModelResponse:  # noqa: ARG002, N802
        return model_pb2.GetModelResponse(
            model=self._message(self._registry.visible_to(current_caller()).leading(request.model))
        )

    async def KeepModel(self, request: model_pb2.KeepModelRequest, context: Timed) -> model_pb2.KeepModelResponse:  # noqa: N802
        caller, keep_s = current_caller(), to_keep_s(request)
        visible = self._registry.visible_to(caller)
        model = visible.leading(request.model)
        async with admitted(self._quota, model.name, ()):
            if keep_s == 0:
                self._residency.let_go(model.name, caller)
            else:
                async with self._residency.held(model.name, caller, deadline_of(context), keep_s):
                    model = visible.leading(request.model)  # a new one if its files have changed
                    if model.engine.is_asleep:
                        raise EngineAsleep("the model is asleep until it is woken", _RETRY_S)
        return model_pb2.KeepModelResponse(model=self._message(model))

    async def GetLoad(self, request: load_pb2.GetLoadRequest, context: object) -> load_pb2.GetLoadResponse:  # noqa: ARG002, N802
        visible = self._registry.visible_to(current_caller())
        stats = {model.name: model.engine.stats() for model in self._registry.loaded if visible.find(model.name)}
        entities = list(visible.entity_loads())
        # Off the event loop: there may be thousands of metrics.
        samples = await asyncio.to_thread(self._telemetry.samples)
        return load_message(self._started_ns, stats, entities, samples)

    async def LoadModel(self, request: model_pb2.LoadModelRequest, context: object) -> model_pb2.LoadModelResponse:  # noqa: ARG002, N802
        entry, caller = to_loaded_model(request), current_caller()
        if request.background:
            operation = await self._operations.load(entry, caller)
            return model_pb2.LoadModelResponse(operation=operation_message(operation))
        served = await self._changes.load_model(entry, caller)
        return model_pb2.LoadModelResponse(model=self._message(served))

    async def UnloadModel(  # noqa: N802
        self,
        request: model_pb2.UnloadModelRequest,
        context: object,  # noqa: ARG002
    ) -> model_pb2.UnloadModelResponse:
        await self._changes.unload_model(request.model, current_caller())
        return model_pb2.UnloadModelResponse()

    async def SleepModel(self, request: model_pb2.SleepModelRequest, context: object) -> model_pb2.SleepModelResponse:  # noqa: ARG002, N802
        await self._changes.sleep(request.model, current_caller())
        return model_pb2.SleepModelResponse()

    async def WakeModel(self, request: model_pb2.WakeModelRequest, context: object) -> model_pb2.WakeModelResponse:  # noqa: ARG002, N802
        if request.background:
            operation = await self._operations.wake(request.model, current_caller())
            return model_pb2.WakeModelResponse(operation=operation_message(operation))
        await self._changes.wake(request.model, current_caller())
        return model_pb2.WakeModelResponse()

    def _message(self, model: ServedModel) -> model_pb2.Model:
        """Return the message that describes a model with its state."""
        state, expires_ns = self._residency.state_of(model), self._residency.expires_ns(model)
        return model_message(model.description, state, expires_ns)
