"""Loads of a real model, cancelled at random instants."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from grpc import aio
from sluice.v1 import model_pb2, operation_pb2, operation_pb2_grpc

from process.lifetime.abandoned import run_abandonable
from service.engine.interface.port import StepObserver
from service.loading.model import load_model
from service.registry.models import ServedModel
from service.settings.model_settings import ModelSettings
from tests.e2e.stack import child_pids, is_running
from tests.engine.fakes import until
from tests.service.endpoint_fakes import serving
from tests.service.servicers.models.slow_loads import SlowLoads

pytestmark = pytest.mark.long

DEMO = Path("demo/model").resolve()
NUM_CANCELLATIONS = int(os.environ.get("CANCELLATIONS", "25"))


async def load(settings: ModelSettings, observer: StepObserver) -> ServedModel:
    return await run_abandonable("load", partial(load_model, settings, observer))


def processes() -> int:
    """Return the number of processes that this one has started and that run."""
    return sum(map(is_running, child_pids(os.getpid())))


def cache_bytes() -> int:
    """Return the size of the caches in memory that are open; that of an engine that was stopped is empty."""
    sizes = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            if "sluice-cache" in str(each.readlink()):
                sizes.append(each.stat().st_size)
    return sum(sizes)


async def test_a_load_that_is_cancelled_at_any_instant_leaves_nothing() -> None:
    """A load may end before its cancellation; it is served then. Afterwards the model can be loaded."""
    generator = random.Random(5)
    async with (
        serving("a", models_root=DEMO.parent) as run,
        aio.insecure_channel(f"127.0.0.1:{run.port}") as channel,
    ):
        run.server.deployment.load_by(load)
        loads = SlowLoads(run, operation_pb2_grpc.OperationServiceStub(channel))
        before = processes(), cache_bytes()
        num_threads = threading.active_count()

        async def begin() -> str:
            request = model_pb2.LoadModelRequest(name="second", path=DEMO.name, background=True)
            operation_id: str = (await run.models.LoadModel(request)).operation.id
            return operation_id

        async def unload() -> None:
            await run.models.UnloadModel(model_pb2.UnloadModelRequest(model="second"))

        began = time.monotonic()
        assert (await loads.wait(await begin())).state == operation_pb2.OPERATION_STATE_SUCCEEDED
        took_s = time.monotonic() - began
        await unload()
        states = []
        for _ in range(NUM_CANCELLATIONS):
            operation = await begin()
            await asyncio.sleep(generator.uniform(0, 1.1 * took_s))  # any instant of the load
            states.append((await loads.cancel(operation)).state)
            if states[-1] == operation_pb2.OPERATION_STATE_SUCCEEDED:
                await unload()
            assert (processes(), cache_bytes()) == before
        assert set(states) <= {operation_pb2.OPERATION_STATE_CANCELLED, operation_pb2.OPERATION_STATE_SUCCEEDED}
        assert operation_pb2.OPERATION_STATE_CANCELLED in states
        assert await loads.names() == ["a", "encoder"]
        await until(lambda: threading.active_count() <= num_threads + 1)  # asyncio's own for `to_thread` may have come
        assert (await loads.wait(await begin())).state == operation_pb2.OPERATION_STATE_SUCCEEDED
        assert "second" in await loads.names()
