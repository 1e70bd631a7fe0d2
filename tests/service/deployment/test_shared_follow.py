"""How a replica applies other replicas' changes while it loads, after a restart or a failure, and at its start."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sluice.v1 import adapter_pb2, model_pb2

from process.files.replacement import replace_file
from service.deployment.changes import Changes, LoadedAdapter, LoadedModel
from service.engine.client.generator import GeneratorClient
from service.generation.adapter import AdapterLoaded
from service.generation.errors import EngineClosed, EngineRestarting
from service.settings.endpoint_settings import EndpointSettings
from service.settings.model_settings import ModelSettings
from tests.service.deployment.test_shared_deployment import failed, listed, load, unload, until_equal
from tests.service.endpoint_fakes import Serving, serving
from tests.service.fakes import rejection_of, request, settings_of

pytestmark = pytest.mark.slow


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    """Return the settings of services that share a file with the models that clients load."""
    for name in ("new", "french"):
        (tmp_path / "root" / name).mkdir(parents=True)
    root = tmp_path / "root"
    return {"models_root": root, "adapters_root": root, "loaded_models_file": tmp_path / "loaded.json"}


@pytest.fixture
def adapter_loads(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """Make adapter loads return immediately; they raise the exceptions in the list, one after the other."""
    errors: list[Exception] = []

    async def load_adapter(self: GeneratorClient, name: str, folder: Path) -> AdapterLoaded:
        if "gone" in str(folder):
            raise EngineClosed(f"{folder} is gone")
        if errors:
            raise errors.pop()
        return AdapterLoaded(1, 1, name)

    async def drop_adapter(*_: object) -> None:
        return

    monkeypatch.setattr(GeneratorClient, "load_adapter", load_adapter)
    monkeypatch.setattr(GeneratorClient, "drop_adapter", drop_adapter)
    return errors


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let engines on threads sleep, too; the list records the sleeps and wakes in order."""
    log: list[str] = []

    async def sleep(self: GeneratorClient, timeout_s: float) -> None:
        self.is_asleep = True
        log.append("sleep")

    async def wake(self: GeneratorClient) -> None:
        self.is_asleep = False
        log.append("wake")

    monkeypatch.setattr(GeneratorClient, "sleep", sleep)
    monkeypatch.setattr(GeneratorClient, "wake", wake)
    return log


def write(settings: dict[str, Any], changes: Changes) -> None:
    """Write changes as another replica would, at once."""
    replace_file(settings["loaded_models_file"], changes.to_text())


def with_adapter(path: str = "french") -> ModelSettings:
    """Return the settings of a model with an adapter."""
    return ModelSettings(name="c", path="nowhere", adapters={"french": path})


async def load_adapter(run: Serving, model: str, name: str, path: str) -> None:
    await run.adapters.LoadAdapter(adapter_pb2.LoadAdapterRequest(model=model, name=name, path=path))


async def unload_adapter(run: Serving, model: str, name: str) -> None:
    await run.adapters.UnloadAdapter(adapter_pb2.UnloadAdapterRequest(model=model, name=name))


async def reason(run: Serving, model: str) -> str:
    """Return the reason for which a request to that model is rejected; empty if it is served."""
    try:
        await run.chat.Chat(request(model=model))
    except Exception:  # noqa: BLE001  rejection_of() returns it
        found: str = (await rejection_of(run.chat.Chat(request(model=model)))).info.reason
        return found
    return ""


async def test_endpoint_of_the_settings_is_kept_without_its_model(settings: dict[str, Any]) -> None:
    """An endpoint over a model that clients have unloaded prevents neither a reload of the settings nor a start."""
    share = {"name": "x", "model": "a", "traffic_percentage": 100}
    settings["endpoints"] = [EndpointSettings.model_validate({"name": "prod", "entities": [share]})]
    async with serving("a", "b", **settings) as run:
        await unload(run, "a")
        run.server.apply(settings_of(model=dict.fromkeys(("a", "b"), "nowhere"), **settings))
    async with serving("a", "b", **settings) as run:
        assert await listed(run) == ["b"]
        assert await reason(run, "prod") == "MODEL_NOT_FOUND"


async def test_an_endpoint_of_the_settings_may_serve_an_adapter(
    settings: dict[str, Any], adapter_loads: list[Exception]
) -> None:
    """An entity of the settings may be MODEL:ADAPTER; the start doesn't fail if clients have unloaded either."""
    assert not adapter_loads
    share = {"name": "x", "model": "c:french", "traffic_percentage": 100}
    settings["endpoints"] = [EndpointSettings.model_validate({"name": "prod", "entities": [share]})]
    settings["models"] = [with_adapter()]
    async with serving("a", **settings) as run:
        assert (await run.chat.Chat(request(model="prod"))).model == "c:french"
        await unload_adapter(run, "c", "french")
    async with serving("a", **settings) as run:
        assert await reason(run, "prod") == "MODEL_NOT_FOUND"
        await load_adapter(run, "c", "french", "french")
        assert await reason(run, "prod") == ""
        await unload(run, "c")
    async with serving("a", **settings) as run:
        assert await listed(run) == ["a"]
        assert await reason(run, "prod") == "MODEL_NOT_FOUND"


@pytest.mark.parametrize("error", [EngineRestarting("it restarts", 0.1), RuntimeError("nobody knows")])
async def test_a_failed_adapter_is_loaded_later(
    settings: dict[str, Any], adapter_loads: list[Exception], error: Exception
) -> None:
    """After any error the adapter is loaded again later, and subsequent changes are applied."""
    async with serving("a", **settings) as run:
        adapter_loads.append(error)
        entry = LoadedAdapter(model="a", name="french", path="french")
        write(settings, Changes(adapters=(entry,)))
        await until_equal(lambda: failed(run), {"a:french": str(error)})
        write(settings, Changes(adapters=(entry,), models=(LoadedModel(name="new", path="new"),)))
        await until_equal(lambda: listed(run), ["a", "a:french", "new"])
        await until_equal(lambda: failed(run), {})
        assert run.server.registry.loads["a:french"]


async def test_pending_models_are_rejected_as_loading(settings: dict[str, Any]) -> None:
    """Changes that arrive while another model is loading are included."""
    async with serving("a", **settings) as run:
        run.held["one"] = asyncio.Event()
        models = [LoadedModel(name=name, path="new") for name in ("one", "two", "three")]
        adapter = LoadedAdapter(model="two", name="french", path="french")
        write(settings, Changes(models=tuple(models[:2]), adapters=(adapter,)))
        await until_equal(lambda: reason(run, "two"), "MODEL_NOT_LOADED")
        assert await reason(run, "two:french") == "MODEL_NOT_LOADED"
        write(settings, Changes(models=tuple(models)))
        await until_equal(lambda: reason(run, "three"), "MODEL_NOT_LOADED")
        await until_equal(lambda: reason(run, "two:french"), "MODEL_NOT_FOUND")
        assert (await rejection_of(run.create("three", ("a", "a", 100)))).info.reason == "ENDPOINT_EXISTS"
        assert run.log == ["a", "one"]
        run.held["one"].set()
        await until_equal(lambda: listed(run), ["a", "one", "two", "three"])


async def test_models_are_put_to_sleep_before_others_load(settings: dict[str, Any], sleeps: list[str]) -> None:
    """Changes of other replicas, and the start, put models to sleep before they load any."""
    new = LoadedModel(name="new", path="new")
    async with serving("a", "b", **settings) as run:
        run.held["new"] = asyncio.Event()
        write(settings, Changes(models=(new,), asleep=frozenset({"b"})))
        await until_equal(lambda: _value(run.log), ["a", "b", "new"])
        assert sleeps == ["sleep"]
        run.held["new"].set()
    async with serving("a", "b", **settings) as run:
        assert run.log == ["b", "a", "new"]
        assert [model.engine.is_asleep for model in run.server.registry.loaded[:3]] == [True, False, False]
        run.held["newer"] = asyncio.Event()
        write(settings, Changes(models=(new, LoadedModel(name="newer", path="new"))))
        await until_equal(lambda: _value(run.log[3:]), ["newer"])
        assert sleeps == ["sleep", "sleep"]
        run.held["newer"].set()
        await until_equal(lambda: _value(sleeps), ["sleep", "sleep", "wake"])


async def _value(value: object) -> object:
    return value


async def test_models_of_the_settings_are_restored(settings: dict[str, Any], adapter_loads: list[Exception]) -> None:
    """A load of its path restores it everywhere with its adapters; a load of another path is another model."""
    assert not adapter_loads
    settings |= {"models": [with_adapter()]}
    async with serving("a", **settings) as one, serving("a", **settings) as other:
        whole = ["a", "c", "c:french"]
        await unload_adapter(one, "c", "french")
        await until_equal(lambda: listed(other), ["a", "c"])
        await load_adapter(one, "c", "french", "french")
        assert (await rejection_of(load_adapter(one, "c", "french", "french"))).info.reason == "ADAPTER_EXISTS"
        await until_equal(lambda: listed(other), whole)
        await unload_adapter(one, "c", "french")
        await unload(one, "c")
        await until_equal(lambda: listed(other), ["a"])
        await one.models.LoadModel(model_pb2.LoadModelRequest(name="c", path="nowhere"))
        for run in (one, other):
            await until_equal(partial(listed, run), whole)
        assert Changes.of_text(settings["loaded_models_file"].read_text()) == Changes()
        assert (await rejection_of(load(one, "c"))).info.reason == "MODEL_EXISTS"
        await unload(one, "c")
        await load(one, "c")
        await until_equal(lambda: listed(other), ["a", "c"])


async def test_start_succeeds_if_an_unloaded_adapters_folder_is_missing(
    settings: dict[str, Any], adapter_loads: list[Exception]
) -> None:
    assert not adapter_loads
    async with serving(models=[with_adapter()], **settings) as run:
        await unload_adapter(run, "c", "french")
    async with serving(models=[with_adapter("gone")], **settings) as run:
        assert await listed(run) == ["c"]
