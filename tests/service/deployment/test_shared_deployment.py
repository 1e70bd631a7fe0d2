"""Models that clients load at one of several services are loaded by all, and no change is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from sluice.v1 import model_pb2

from service.server.listener import StartError
from tests.redis_server import RedisServer
from tests.service.endpoint_fakes import Serving, serving
from tests.service.fakes import rejection_of, request
from tests.waiting import GUARD_S

Settings = dict[str, Any]
pytestmark = pytest.mark.slow


@pytest.fixture(params=["file", "redis"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Return the settings of services that share the models that clients load."""
    (tmp_path / "root" / "new").mkdir(parents=True)
    root = {"models_root": tmp_path / "root"}
    if request.param == "file":
        return {**root, "loaded_models_file": tmp_path / "loaded.json"}
    redis: RedisServer = request.getfixturevalue("redis")
    return {**root, "store": {"redis_url": redis.url, "redis_timeout_s": GUARD_S}}


@contextlib.asynccontextmanager
async def two(settings: Settings) -> AsyncIterator[tuple[Serving, Serving]]:
    """Run two services with the same models."""
    async with serving("a", "b", **settings) as one, serving("a", "b", **settings) as other:
        yield one, other


async def load(run: Serving, name: str, **fields: Any) -> None:
    await run.models.LoadModel(model_pb2.LoadModelRequest(name=name, path="new", **fields))


async def unload(run: Serving, name: str) -> None:
    await run.models.UnloadModel(model_pb2.UnloadModelRequest(model=name))


async def listed(run: Serving) -> list[str]:
    """Return the names of the generative models."""
    models = (await run.models.ListModels(model_pb2.ListModelsRequest())).models
    return [model.name for model in models if model.name != "encoder"]


async def failed(run: Serving) -> dict[str, str]:
    """Return the wanted models that are not served, with the reasons."""
    answer = await run.models.ListModels(model_pb2.ListModelsRequest())
    return {each.name: each.reason for each in answer.failed_models}


async def status(run: Serving, name: str) -> str:
    answer = await run.health.Check(health_pb2.HealthCheckRequest(service=name))
    found: str = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    return found


async def until_equal(ask: Callable[[], Any], expected: object) -> None:
    """Return when the result of the call is the expected one; services check the store once a second."""
    async with asyncio.timeout(GUARD_S):
        while await ask() != expected:  # noqa: ASYNC110  polls as a client would
            await asyncio.sleep(0.02)


async def test_loaded_models_are_served_by_all_services(shared: Settings) -> None:
    """A service that starts later loads it too; an unload applies everywhere, also to a model of the settings."""
    async with two(shared) as (one, other):
        await load(one, "new", version="7")
        await until_equal(lambda: listed(other), ["a", "b", "new"])
        assert (await other.chat.Chat(request(model="new"))).model == "new"
        await unload(other, "a")
        await until_equal(lambda: listed(one), ["b", "new"])
        async with serving("a", "b", **shared) as late:
            assert await listed(late) == ["b", "new"]
            described = await late.models.GetModel(model_pb2.GetModelRequest(model="new"))
            assert described.model.name == "new"
            await unload(late, "new")
        for run in (one, other):
            await until_equal(partial(listed, run), ["b"])


async def test_a_load_waits_for_a_replica_that_has_just_started(shared: Settings) -> None:
    """A replica that serves knows the model when the load returns: it doesn't answer that the model is unknown."""
    async with two(shared) as (one, other):
        other.held["new"] = asyncio.Event()
        await load(one, "new")
        rejection = await rejection_of(other.chat.Chat(request(model="new")))
        assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.UNAVAILABLE, "MODEL_NOT_LOADED")
        other.held["new"].set()
        await until_equal(lambda: listed(other), ["a", "b", "new"])


async def test_load_under_a_used_name_replaces_the_model(shared: Settings) -> None:
    """A model of the settings can be replaced as well."""
    async with two(shared) as (one, other):
        before = other.engines["a"]
        await unload(one, "a")
        await load(one, "a", max_model_len=32)
        await until_equal(lambda: listed(other), ["b", "a"])
        assert other.engines["a"] is not before


async def test_a_failed_load_is_reported_and_other_models_serve(shared: Settings) -> None:
    """A replica's health, list and errors show a model that failed to load; an unload at any service ends that."""
    async with two(shared) as (one, other):
        other.failing_names.add("new")
        await load(one, "new")
        await until_equal(lambda: failed(other), {"new": f"{shared['models_root'] / 'new'}: too large"})
        assert (await one.chat.Chat(request(model="new"))).model == "new"
        rejection = await rejection_of(other.chat.Chat(request(model="new")))
        assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.UNAVAILABLE, "MODEL_NOT_LOADED")
        assert await listed(other) == ["a", "b"]
        assert await status(other, "") == "SERVING"
        await until_equal(lambda: status_of_model(other), "NOT_SERVING")
        taken = await rejection_of(load(other, "new"))
        assert taken.info.reason == "MODEL_EXISTS"
        await unload(other, "new")
        await until_equal(lambda: failed(other), {})
        await until_equal(lambda: listed(one), ["a", "b"])


async def status_of_model(run: Serving) -> str:
    with contextlib.suppress(grpc.aio.AioRpcError):
        await run.server.health.set_models(run.server.registry.loads)  # like `watch` every second
        return await status(run, "model/new")
    return ""


async def test_one_of_two_concurrent_loads_of_a_name_succeeds(shared: Settings) -> None:
    """One load succeeds, and the other client gets an error that the name is taken."""
    async with two(shared) as (one, other):
        done = await asyncio.gather(load(one, "new"), load(other, "new"), return_exceptions=True)
        assert sum(each is None for each in done) == 1
        for run in (one, other):
            await until_equal(partial(listed, run), ["a", "b", "new"])


async def test_model_that_cannot_be_loaded_is_not_stored(shared: Settings) -> None:
    async with two(shared) as (one, other):
        one.failing_names.add("new")
        rejection = await rejection_of(load(one, "new"))
        assert rejection.info.reason == "MODEL_REFUSED"
        await load(other, "later")  # the other services have checked the store by then
        await until_equal(lambda: listed(one), ["a", "b", "later"])
        assert await listed(other) == ["a", "b", "later"]


async def test_models_are_not_shared_with_another_pool(redis: RedisServer, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    store = {"redis_url": redis.url}
    async with (
        serving("a", models_root=tmp_path, store={**store, "pool": "small"}) as one,
        serving("a", models_root=tmp_path, store=store) as other,
    ):
        await load(one, "new")
        await load(other, "newer")
        assert (await listed(one), await listed(other)) == (["a", "new"], ["a", "newer"])


async def test_lost_store_rejects_changes_and_keeps_models_served(redis: RedisServer, tmp_path: Path) -> None:
    """Known models are served; when the store has lost everything, it is filled again."""
    (tmp_path / "new").mkdir()
    settings: Settings = {"models_root": tmp_path, "store": {"redis_url": redis.url, "redis_timeout_s": GUARD_S}}
    async with serving("a", **settings) as run:
        await load(run, "new")
        redis.kill()
        rejection = await rejection_of(load(run, "newer"))
        assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.UNAVAILABLE, "CHANGES_UNAVAILABLE")
        assert (await rejection_of(unload(run, "new"))).info.reason == "CHANGES_UNAVAILABLE"
        assert await listed(run) == ["a", "new"]
        await until_equal(lambda: status(run, "store"), "NOT_SERVING")
        redis.start()
        await until_equal(lambda: status(run, "store"), "SERVING")
        async with serving("a", **settings) as late:
            assert await listed(late) == ["a", "new"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{", "EOF"), ('{"models": [{"name": "x"}]}', "path"), ('{"wings": 2}', "wings")],
)
async def test_unreadable_file_fails_the_start(tmp_path: Path, text: str, reason: str) -> None:
    """The error has the path and the problem; the file is unchanged."""
    path = tmp_path / "loaded.json"
    path.write_text(text)
    with pytest.raises(StartError, match=rf"loaded_models_file: {path}: .*{reason}"):
        async with serving("a", loaded_models_file=path):
            pass
    assert path.read_text() == text
