"""grpc.health.v1 during the whole life of a server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2

from service.observability.health import ServingPhase
from service.server.engine_watch import EngineDied
from service.server.services import SERVICES
from tests.engine.fakes import until
from tests.service.fakes import ScriptedRunner, rejection_of, request, running

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def statuses(watch: Any) -> AsyncIterator[int]:
    """Yield the statuses that a watcher receives."""
    while (response := await watch.read()) is not aio.EOF:
        yield response.status


@pytest.mark.parametrize("service", ["", *SERVICES])
async def test_health_watch_reports_each_transition(service: str) -> None:
    """NOT_SERVING while starting, SERVING, and NOT_SERVING from the stop on, for each service and overall."""
    async with running(is_loaded=False) as run:
        watch = run.health.Watch(health_pb2.HealthCheckRequest(service=service))
        seen = statuses(watch)
        assert await anext(seen) == NOT_SERVING
        await run.server.load([], run.load)
        assert await anext(seen) == SERVING
        stop = asyncio.create_task(run.server.drain())
        assert await anext(seen) == NOT_SERVING
        await stop
        watch.cancel()


async def test_process_is_live_during_start_and_shutdown() -> None:
    """`live` is SERVING from the beginning until an engine fails; `startup` is SERVING once the models are loaded."""
    async with running(is_loaded=False) as run:
        assert [await run.status(name) for name in ("live", "startup", "")] == ["SERVING", "NOT_SERVING", "NOT_SERVING"]
        await run.server.load([], run.load)
        assert [await run.status(name) for name in ("live", "startup", "")] == ["SERVING"] * 3
        for phase in (ServingPhase.LEAVING, ServingPhase.DRAINING):
            await run.server.health.enter(phase)
            assert [await run.status(name) for name in ("live", "startup", "")] == ["SERVING", "SERVING", "NOT_SERVING"]
        await run.server.health.enter(ServingPhase.FAILED)
        assert await run.status("live") == "NOT_SERVING"


async def test_health_of_an_unknown_service() -> None:
    """The status is NOT_FOUND, as the protocol specifies."""
    async with running() as run:
        with pytest.raises(aio.AioRpcError) as caught:
            await run.status("nobody.Service")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_health_checks_succeed_while_calls_are_rejected() -> None:
    """A starting and a draining service reject calls with their reasons, and health checks still succeed."""
    async with running(is_loaded=False) as run:
        assert (await rejection_of(run.chat.Chat(request()))).info.reason == "STARTING"
        assert await run.status() == "NOT_SERVING"
    async with running() as run:
        assert await run.status() == "SERVING"
        await run.server.health.enter(ServingPhase.DRAINING)
        assert (await rejection_of(run.chat.Chat(request()))).info.reason == "DRAINING"
        assert await run.status() == "NOT_SERVING"


@pytest.mark.slow
async def test_health_follows_a_stalled_engine() -> None:
    """An engine that hangs in a step makes the service NOT_SERVING, until the engine continues."""
    runner = ScriptedRunner("hello")
    async with running(runner, max_heartbeat_age_s=2.1) as run:
        watching = asyncio.create_task(run.server.watch())
        with runner.paused():
            answer = asyncio.create_task(_wait(run.chat.Chat(request())))
            await run.until_status("NOT_SERVING")
        await run.until_status("SERVING")
        await answer
        watching.cancel()


async def test_dead_engine_makes_the_service_not_serving() -> None:
    """When an engine dies, its callers get INTERNAL, health is NOT_SERVING, and `watch` raises the reason."""
    runner = ScriptedRunner("hello")
    async with running(runner) as run:
        watching = asyncio.create_task(run.server.watch())
        runner.fail_with = RuntimeError("no memory")
        rejection = await rejection_of(run.chat.StreamChat(request()))
        assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.INTERNAL, "ENGINE_FAILED")
        await until(watching.done)
        with pytest.raises(EngineDied, match="the engine of scripted died: RuntimeError: no memory"):
            await watching
        assert await run.status() == "NOT_SERVING"
        rejection = await rejection_of(run.chat.Chat(request()))
        assert rejection.info.reason == "ENGINE_FAILED"


async def _wait(call: Any) -> object:
    return await call
