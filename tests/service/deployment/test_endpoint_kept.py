"""Endpoints after a restart of the server: precedence among the file, the settings and the models."""

import asyncio
import threading
from pathlib import Path

import grpc
import pytest
from sluice.v1 import endpoint_pb2, model_pb2

from service.contract.models.endpoint_json import EndpointJson
from service.contract.models.model import endpoint_message
from service.registry.description import Task
from service.server.listener import StartError
from service.storage.shared_file import SharedFile
from tests.engine.fakes import until
from tests.service.endpoint_fakes import both, entities_of, serving
from tests.service.fakes import rejection_of, request
from tests.waiting import GUARD_S

Code = grpc.StatusCode
FIXED = {"name": "x", "entities": [{"name": "only", "model": "a", "traffic_percentage": 100}]}


async def test_endpoints_survive_a_restart(tmp_path: Path) -> None:
    """All fields are restored after the restart, and deleted endpoints stay deleted."""
    path = tmp_path / "endpoints.json"
    async with serving("a", "b", endpoints_file=path) as run:
        await run.create("gone", *both())
        await run.create("x", *both())
        before = await run.update("x", *both(10, 90))
        await run.endpoints.DeleteEndpoint(endpoint_pb2.DeleteEndpointRequest(name="gone"))
    async with serving("a", "b", endpoints_file=path) as run:
        assert await run.get("x") == before
        assert await run.names() == ["a", "b", "encoder", "x"]
        assert (await run.update("x", *both())).config_version == 3


async def test_endpoints_without_a_file_are_lost_at_the_end() -> None:
    """Without a configured file, endpoints are lost at the end of the server."""
    async with serving("a", "b") as run:
        await run.create("x", *both())
    async with serving("a", "b") as run:
        assert "x" not in await run.names()


async def test_stored_endpoint_of_an_unserved_model_is_kept(tmp_path: Path) -> None:
    """The endpoint stays in the file and in lists.

    Requests to that model are NOT_FOUND with its name, others succeed.
    """
    path = tmp_path / "endpoints.json"
    async with serving("a", "b", endpoints_file=path) as run:
        kept = await run.create("x", *both(100, 0))
    async with serving("b", endpoints_file=path) as run:
        assert await run.get("x") == kept
        rejection = await rejection_of(run.chat.Chat(request(model="x")))
        described = await rejection_of(run.models.GetModel(model_pb2.GetModelRequest(model="x")))
        options = {"deployment": "b"}
        assert (await run.chat.Chat(request(model="x", serving=options))).model == "b"
    for each in (rejection, described):
        assert (each.code, each.info.reason, each.info.metadata["model"]) == (Code.NOT_FOUND, "MODEL_NOT_FOUND", "a")
        assert "'x'" in each.text
    async with serving("a", "b", endpoints_file=path) as run:
        assert (await run.chat.Chat(request(model="x"))).model == "a"


async def test_settings_and_models_take_precedence_over_stored_endpoints(tmp_path: Path) -> None:
    """A stored endpoint whose name the settings or a model use is not served, and is served again without them."""
    path = tmp_path / "endpoints.json"
    async with serving("a", "b", endpoints_file=path) as run:
        kept = await run.create("x", ("only", "b", 100))
    async with serving("a", "b", endpoints_file=path, endpoints=[FIXED]) as run:
        assert (await run.chat.Chat(request(model="x"))).model == "a"
        assert (await run.get("x")).entities == entities_of(("only", "a", 100))
        await run.create("y", *both())
    async with serving("x", "b", endpoints_file=path) as run:
        assert (await run.get("x")).is_model
        assert await run.names() == ["b", "encoder", "x", "y"]
        assert (await run.chat.Chat(request(model="x"))).model == "x"
    async with serving("a", "b", endpoints_file=path) as run:
        assert await run.get("x") == kept


async def test_change_that_cannot_be_stored_is_not_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the client gets UNAVAILABLE, and the next request sees the file's state."""

    def refuse(_self: SharedFile, _text: str) -> None:
        raise OSError(28, "No space left on device")

    async with serving("a", "b", endpoints_file=tmp_path / "endpoints.json") as run:
        before = await run.create("x", *both())
        with monkeypatch.context() as patch:
            patch.setattr(SharedFile, "write", refuse)
            rejection = await rejection_of(run.update("x", *both(1, 99)))
        assert (rejection.code, rejection.info.reason) == (Code.UNAVAILABLE, "ENDPOINTS_UNAVAILABLE")
        assert "their store can't be read or written; nothing was changed" in rejection.text
        assert await run.get("x") == before
        assert (await run.update("x", *both(2, 98))).config_version == 2


async def test_change_of_a_disconnected_client_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the client cancels while the file is written, the change is both stored and served."""
    gate, entered = threading.Event(), threading.Event()

    def write(file: SharedFile, text: str) -> None:
        entered.set()
        assert gate.wait(GUARD_S)
        original(file, text)

    original = SharedFile.write
    monkeypatch.setattr(SharedFile, "write", write)
    path = tmp_path / "endpoints.json"
    async with serving("a", "b", endpoints_file=path) as run:
        call = asyncio.create_task(run.create("x", *both()))
        await until(entered.is_set)
        call.cancel()
        await asyncio.wait([call])
        assert "x" not in await run.names()
        gate.set()
        await until(lambda: run.server.registry.endpoints.find("x") is not None)
        kept = EndpointJson(is_strict=True).parse(path.read_text()).endpoints
        assert [endpoint_message(each) for each in kept.values()] == [await run.get("x")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", r"endpoints_file: .*endpoints\.json: "),
        (None, r"endpoints_file: .*nowhere/endpoints\.json: the folder does not exist"),
    ],
)
async def test_start_with_an_invalid_file_fails(text: str | None, words: str, tmp_path: Path) -> None:
    """The start fails before a model is loaded, with the setting's name."""
    path = tmp_path / ("nowhere" if text is None else ".") / "endpoints.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(StartError, match=words):
        async with serving("a", endpoints_file=path):
            pass


async def test_start_with_an_endpoint_over_different_tasks_fails() -> None:
    """The conflict is known only once the models are loaded; the start fails with the endpoint's name."""
    mixed = {"name": "x", "entities": [{"name": n, "model": n, "traffic_percentage": 50} for n in ("a", "b")]}
    with pytest.raises(StartError, match="endpoints: x: the models have no task in common"):
        async with serving("a", "b", endpoints=[mixed], tasks={"b": [Task.EMBEDDING]}):
            pass
