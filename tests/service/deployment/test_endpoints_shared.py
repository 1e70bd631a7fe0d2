"""Endpoints that several services share: every change reaches all of them, and none is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from service.server.listener import StartError
from tests.redis_server import RedisServer
from tests.service.endpoint_fakes import Serving, both, serving
from tests.service.fakes import rejection_of, request
from tests.waiting import GUARD_S

Code = grpc.StatusCode
Settings = dict[str, Any]


@pytest.fixture(params=["file", "redis"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Return the settings of services that share their endpoints."""
    if request.param == "file":
        return {"endpoints_file": tmp_path / "endpoints.json"}
    redis: RedisServer = request.getfixturevalue("redis")
    return {"store": {"redis_url": redis.url}}


@contextlib.asynccontextmanager
async def two(settings: Settings) -> AsyncIterator[tuple[Serving, Serving]]:
    """Run two services with the same models."""
    async with serving("a", "b", **settings) as one, serving("a", "b", **settings) as other:
        yield one, other


async def until_equal(ask: Callable[[], Any], expected: object) -> None:
    """Return when the result of the call is the expected one; services check the store once a second."""
    async with asyncio.timeout(GUARD_S):
        while await ask() != expected:  # noqa: ASYNC110  polls as a client would
            await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_changes_reach_the_other_services(shared: Settings) -> None:
    """Created, updated and deleted endpoints are seen by the other service, and by one that starts later."""
    async with two(shared) as (one, other):
        await one.create("x", *both())
        await until_equal(other.names, ["a", "b", "encoder", "x"])
        assert (await other.chat.Chat(request(model="x"))).model in {"a", "b"}
        changed = await other.update("x", ("only", "b", 100))
        assert changed.config_version == 2
        await until_equal(lambda: one.get("x"), changed)
        async with serving("a", "b", **shared) as late:
            assert await late.get("x") == changed


@pytest.mark.slow
async def test_concurrent_changes_are_all_kept(shared: Settings) -> None:
    """Concurrent changes at two services are all stored, although neither service sees the other's first."""
    async with two(shared) as (one, other):
        names = [f"x{number:02}" for number in range(20)]
        await asyncio.gather(*(run.create(name, *both()) for run, name in zip([one, other] * 10, names, strict=True)))
        for run in (one, other):
            await until_equal(run.names, ["a", "b", "encoder", *names])
        await asyncio.gather(*(run.update("x00", *both(10, 90)) for run in (one, other) for _ in range(5)))
        assert max((await one.get("x00")).config_version, (await other.get("x00")).config_version) == 11


@pytest.mark.slow
async def test_lost_store_keeps_known_endpoints_and_rejects_changes(redis: RedisServer) -> None:
    """Endpoints are served, changes are rejected, and health reports it; a store that returns empty is filled again."""
    settings = {"store": {"redis_url": redis.url, "redis_timeout_s": GUARD_S}}
    async with two(settings) as (one, other):
        await one.create("x", *both())
        await until_equal(other.names, ["a", "b", "encoder", "x"])
        redis.kill()
        await until_equal(lambda: store_of(other), "NOT_SERVING")
        assert (await other.chat.Chat(request(model="x"))).model in {"a", "b"}
        rejection = await rejection_of(one.create("y", *both()))
        assert (rejection.code, rejection.info.reason) == (Code.UNAVAILABLE, "ENDPOINTS_UNAVAILABLE")
        assert rejection.retry_after_s
        assert await one.names() == ["a", "b", "encoder", "x"]
        redis.start()
        await until_equal(lambda: store_of(other), "SERVING")
        await one.create("y", *both())
        await until_equal(other.names, ["a", "b", "encoder", "x", "y"])


async def test_a_start_without_the_store_fails(redis: RedisServer) -> None:
    """The error names the setting: without the store, the replica would not find other replicas' endpoints."""
    redis.kill()
    with pytest.raises(StartError, match=r"store\.redis_url: "):
        async with serving("a", store={"redis_url": redis.url}):
            pass


async def store_of(run: Serving) -> str:
    """Return the health status of the store."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{run.port}") as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)  # the package has no types
        answer = await health.Check(health_pb2.HealthCheckRequest(service="store"))
    name: str = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    return name
