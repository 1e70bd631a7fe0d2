"""A server whose loads proceed as the test says, for the tests of operations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpc import aio
from sluice.v1 import model_pb2, model_pb2_grpc, operation_pb2, operation_pb2_grpc

from service.engine.client.generator import GeneratorClient
from service.engine.interface.port import StepObserver
from service.engine.interface.running_load import LoadedBytes, RunningLoad, running_load
from service.generation.errors import ModelLoadError
from service.registry.models import ServedModel
from service.settings.model_settings import ModelSettings
from tests.service.endpoint_fakes import Serving, serving
from tests.service.fakes import ScriptedRunner, scripted_engine, served
from tests.service.plain_preparation import PlainPreparation
from tests.waiting import GUARD_S


@dataclass
class SlowLoad:
    """A load that ends when its gate is set. Its interruption sets an error, as the end of a process does."""

    load: RunningLoad
    gate: asyncio.Future[None]
    interrupted: asyncio.Event = field(default_factory=asyncio.Event)
    ends_at_once: bool = True  # when it is interrupted

    def interrupt(self) -> None:
        self.interrupted.set()
        if self.ends_at_once and not self.gate.done():
            self.gate.set_exception(ModelLoadError("the process died"))


@dataclass
class SlowLoads:
    """Loads of the server, which are begun one after the other."""

    run: Serving
    operations: Any
    begun: asyncio.Queue[SlowLoad] = field(default_factory=asyncio.Queue)
    engines: list[GeneratorClient] = field(default_factory=list)

    async def __call__(self, model: ModelSettings, observer: StepObserver) -> ServedModel:
        slow = SlowLoad(running_load(), asyncio.get_running_loop().create_future())
        await self.begun.put(slow)
        with slow.load.interruptible(slow.interrupt):
            await slow.gate
        self.engines.append(scripted_engine(ScriptedRunner(model.name), observer))
        return served(model.name, self.engines[-1], PlainPreparation())

    async def next(self) -> SlowLoad:
        """Return the next load when it has begun."""
        async with asyncio.timeout(GUARD_S):
            return await self.begun.get()

    async def begin(self, name: str = "new", **options: Any) -> str:
        """Begin an operation that loads a model, and return its id."""
        request = model_pb2.LoadModelRequest(name=name, path="new", background=True)
        answer = await self.run.models.LoadModel(request, timeout=GUARD_S, **options)
        assert not answer.HasField("model")
        operation_id: str = answer.operation.id
        return operation_id

    async def begin_and_leave(self) -> str:
        """Begin an operation by a client that disconnects, and return its id."""
        request = model_pb2.LoadModelRequest(name="new", path="new", background=True)
        async with aio.insecure_channel(f"127.0.0.1:{self.run.port}") as channel:
            stub: Any = model_pb2_grpc.ModelServiceStub(channel)
            operation_id: str = (await stub.LoadModel(request)).operation.id
        return operation_id

    async def get(self, operation_id: str, **options: Any) -> operation_pb2.Operation:
        request = operation_pb2.GetOperationRequest(id=operation_id)
        operation: operation_pb2.Operation = (await self.operations.GetOperation(request, **options)).operation
        return operation

    async def wait(self, operation_id: str, seconds: int = int(GUARD_S)) -> operation_pb2.Operation:
        request = operation_pb2.WaitOperationRequest(id=operation_id, timeout={"seconds": seconds})
        operation: operation_pb2.Operation = (await self.operations.WaitOperation(request)).operation
        return operation

    async def cancel(self, operation_id: str, **options: Any) -> operation_pb2.Operation:
        request = operation_pb2.CancelOperationRequest(id=operation_id)
        operation: operation_pb2.Operation = (await self.operations.CancelOperation(request, **options)).operation
        return operation

    async def until_phase(self, operation_id: str, phase: int) -> operation_pb2.Operation:
        """Return an operation when it has reached a phase."""
        async with asyncio.timeout(GUARD_S):
            while (operation := await self.get(operation_id)).progress.phase != phase:  # noqa: ASYNC110  polls as clients
                await asyncio.sleep(0)
        return operation

    async def names(self) -> list[str]:
        answer = await self.run.models.ListModels(model_pb2.ListModelsRequest())
        return [each.name for each in answer.models]

    def report(self, slow: SlowLoad, num: int, total: int, *, is_complete: bool = False) -> None:
        slow.load.report(LoadedBytes(num, total, is_complete))


@asynccontextmanager
async def slow_loads(root: Path, **settings: Any) -> AsyncIterator[SlowLoads]:
    """Serve the model `a`; all later loads are slow."""
    (root / "new").mkdir()
    async with (
        serving("a", models_root=root, **settings) as run,
        aio.insecure_channel(f"127.0.0.1:{run.port}") as channel,
    ):
        loads = SlowLoads(run, operation_pb2_grpc.OperationServiceStub(channel))
        run.server.deployment.load_by(loads)
        yield loads
