"""Operations: loads in the background on a real server, with loads that the test controls."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import grpc
import pytest
from sluice.v1 import error_pb2, model_pb2, operation_pb2

from service.deployment.operations.operations import KEPT_S, MAX_RUNNING
from service.generation.errors import EngineClosed, ModelLoadError
from tests.engine.fakes import request as engine_request
from tests.engine.started_engine import generate
from tests.service.auth.key_files import write
from tests.service.fakes import rejection_of
from tests.service.servicers.models.slow_loads import SlowLoads, slow_loads
from tests.waiting import GUARD_S

SUCCEEDED = operation_pb2.OPERATION_STATE_SUCCEEDED
RUNNING = operation_pb2.OPERATION_STATE_RUNNING
FAILED = operation_pb2.OPERATION_STATE_FAILED
CANCELLED = operation_pb2.OPERATION_STATE_CANCELLED


async def test_an_operation_shows_the_progress_of_a_load_until_its_end(tmp_path: Path) -> None:
    async with slow_loads(tmp_path) as loads:
        began = await loads.begin()
        load = await loads.next()
        operation = await loads.get(began)
        assert (operation.kind, operation.model) == (operation_pb2.OPERATION_KIND_LOAD_MODEL, "new")
        assert (operation.state, operation.progress.phase) == (RUNNING, operation_pb2.LOAD_PHASE_PREPARING)
        assert operation.HasField("create_time")
        assert not operation.HasField("end_time")
        loads.report(load, 30, 100)
        operation = await loads.until_phase(began, operation_pb2.LOAD_PHASE_READING)
        assert (operation.progress.loaded_bytes, operation.progress.total_bytes) == (30, 100)
        loads.report(load, 90, 100, is_complete=True)
        await loads.until_phase(began, operation_pb2.LOAD_PHASE_FINISHING)
        assert await loads.wait(began, seconds=0) == await loads.get(began)
        assert await loads.names() == ["a", "encoder"]
        load.gate.set_result(None)
        operation = await loads.wait(began)
        assert (operation.state, operation.progress.phase) == (SUCCEEDED, operation_pb2.LOAD_PHASE_PUBLISHING)
        assert operation.expire_time.seconds - operation.end_time.seconds == KEPT_S
        assert await loads.names() == ["a", "new", "encoder"]


async def test_a_cancelled_load_releases_its_engine_and_keeps_what_was_served(tmp_path: Path) -> None:
    async with slow_loads(tmp_path) as loads:
        began = await loads.begin()
        load = await loads.next()
        operation = await loads.cancel(began)
        assert (operation.state, load.interrupted.is_set(), loads.engines) == (CANCELLED, True, [])
        assert not operation.HasField("error")
        assert operation == await loads.cancel(began)
        assert await loads.names() == ["a", "encoder"]
        again = await loads.begin()
        (await loads.next()).gate.set_result(None)
        assert (await loads.wait(again)).state == SUCCEEDED


async def test_a_load_that_is_complete_when_it_is_cancelled_is_undone(tmp_path: Path) -> None:
    """The interruption comes too late for the loader, but before the model is served."""
    async with slow_loads(tmp_path) as loads:
        began = await loads.begin()
        load = await loads.next()
        load.gate.set_result(None)
        load.load.cancel()
        assert (await loads.wait(began)).state == CANCELLED
        (engine,) = loads.engines
        assert (await rejection_of(loads.run.models.GetModel(model_pb2.GetModelRequest(model="new")))).code is (
            grpc.StatusCode.NOT_FOUND
        )
        with pytest.raises(EngineClosed):
            await generate(engine, engine_request("hello"))


async def test_a_queued_load_is_cancelled_at_once(tmp_path: Path) -> None:
    """The load that runs before it is not affected, and neither is the one after it."""
    async with slow_loads(tmp_path) as loads:
        first, second, third = [await loads.begin(name) for name in ("one", "two", "three")]
        load = await loads.next()
        assert (await loads.get(second)).progress.phase == operation_pb2.LOAD_PHASE_QUEUED
        assert (await loads.cancel(second)).state == CANCELLED
        assert (await loads.get(first)).state == RUNNING
        load.gate.set_result(None)
        (await loads.next()).gate.set_result(None)
        assert [(await loads.wait(each)).state for each in (first, third)] == [SUCCEEDED, SUCCEEDED]
        assert await loads.names() == ["a", "one", "three", "encoder"]


async def test_of_two_loads_of_a_name_the_second_fails_unless_the_first_is_cancelled(tmp_path: Path) -> None:
    async with slow_loads(tmp_path) as loads:
        first, second, third = [await loads.begin() for _ in range(3)]
        await loads.next()
        await loads.cancel(first)
        (await loads.next()).gate.set_result(None)
        assert (await loads.wait(second)).state == SUCCEEDED
        operation = await loads.wait(third)
        assert (operation.state, operation.error.reason) == (FAILED, error_pb2.ERROR_REASON_MODEL_EXISTS)
        assert operation.error.message == "the name 'new' is taken"


async def test_an_operation_continues_without_its_client(tmp_path: Path) -> None:
    async with slow_loads(tmp_path) as loads:
        began = await loads.begin_and_leave()
        load = await loads.next()
        waiting = loads.operations.WaitOperation(operation_pb2.WaitOperationRequest(id=began))
        await loads.get(began)
        waiting.cancel()
        assert (await loads.get(began)).state == RUNNING
        load.gate.set_result(None)
        operation = await loads.wait(began)
        assert operation.state == SUCCEEDED
        assert await loads.cancel(began) == operation
        assert "new" in await loads.names()


async def test_a_cancellation_continues_without_its_client(tmp_path: Path) -> None:
    async with slow_loads(tmp_path) as loads:
        began = await loads.begin()
        load = await loads.next()
        load.ends_at_once = False
        cancelling = loads.operations.CancelOperation(operation_pb2.CancelOperationRequest(id=began))
        async with asyncio.timeout(GUARD_S):
            await load.interrupted.wait()
        cancelling.cancel()
        assert (await loads.get(began)).state == RUNNING
        load.gate.set_result(None)
        assert (await loads.wait(began)).state == CANCELLED
        assert await loads.names() == ["a", "encoder"]


async def test_a_failed_load_has_the_error_of_the_call(tmp_path: Path) -> None:
    async with slow_loads(tmp_path) as loads:
        began = await loads.begin()
        (await loads.next()).gate.set_exception(ModelLoadError("new: too large"))
        operation = await loads.wait(began)
        assert (operation.state, operation.error.reason) == (FAILED, error_pb2.ERROR_REASON_MODEL_REFUSED)
        assert operation.error.message == "new: too large"
        assert await loads.names() == ["a", "encoder"]


async def test_an_unexpected_error_is_not_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with slow_loads(tmp_path) as loads:
        began = await loads.begin()
        (await loads.next()).gate.set_exception(KeyError("secret"))
        error = (await loads.wait(began)).error
    assert (error.reason, error.message) == (error_pb2.ERROR_REASON_INTERNAL, "internal error")
    assert "secret" in caplog.text


@pytest.mark.parametrize(
    ("name", "path", "code"),
    [
        ("a", "new", grpc.StatusCode.ALREADY_EXISTS),
        ("new", "nothing", grpc.StatusCode.INVALID_ARGUMENT),
        ("new", "..", grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
async def test_errors_that_are_known_at_once_are_those_of_the_call(
    tmp_path: Path, name: str, path: str, code: grpc.StatusCode
) -> None:
    async with slow_loads(tmp_path) as loads:
        request = model_pb2.LoadModelRequest(name=name, path=path)
        expected = await rejection_of(loads.run.models.LoadModel(request))
        request.background = True
        found = await rejection_of(loads.run.models.LoadModel(request))
        assert (found.code, found.text) == (expected.code, expected.text) == (code, expected.text)
        answer = await loads.operations.ListOperations(operation_pb2.ListOperationsRequest())
        assert not answer.operations


async def test_operations_are_listed_in_pages_and_limited(tmp_path: Path) -> None:
    async with slow_loads(tmp_path) as loads:
        began = [await loads.begin(f"m{index}") for index in range(MAX_RUNNING)]
        rejection = await rejection_of(
            loads.run.models.LoadModel(model_pb2.LoadModelRequest(name="x", path="new", background=True))
        )
        assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL")
        assert rejection.info.metadata["limit"] == str(MAX_RUNNING)
        found, token = [], ""
        for _ in range(MAX_RUNNING // 4):
            request = operation_pb2.ListOperationsRequest(page_size=4, page_token=token)
            page = await loads.operations.ListOperations(request)
            assert len(page.operations) == 4
            found += [each.id for each in page.operations]
            token = page.next_page_token
        assert (found, token) == (began[::-1], "")
        for each in began:
            await loads.cancel(each)


async def test_another_keys_operation_is_like_an_unknown_one(tmp_path: Path) -> None:
    keys = write(tmp_path / "keys.yaml", one={"scopes": ["admin"]}, other={"scopes": ["admin"]}, user={"scopes": []})
    options: list[dict[str, Any]] = [
        {"metadata": (("authorization", f"Bearer {key}"), ("x-request-id", "r"))} for key in keys.values()
    ]
    one, other, user = options
    async with slow_loads(tmp_path, auth={"keys_file": tmp_path / "keys.yaml"}) as loads:
        began = await loads.begin(**one)
        load = await loads.next()
        for method, kind in _by_id(loads):
            hidden, unknown = [await rejection_of(method(kind(id=each), **other)) for each in (began, "0" * len(began))]
            assert (hidden.code, hidden.text) == (unknown.code, unknown.text)
            assert dict(hidden.error.trailing_metadata() or ()) == dict(unknown.error.trailing_metadata() or ())
            assert (hidden.code, hidden.info.reason) == (grpc.StatusCode.NOT_FOUND, "OPERATION_NOT_FOUND")
            denied = await rejection_of(method(kind(id=began), **user))
            assert denied.code is grpc.StatusCode.PERMISSION_DENIED
        listed = await loads.operations.ListOperations(operation_pb2.ListOperationsRequest(), **other)
        assert not listed.operations
        load.gate.set_result(None)
        request = operation_pb2.WaitOperationRequest(id=began)
        assert (await loads.operations.WaitOperation(request, **one)).operation.state == SUCCEEDED


def _by_id(loads: SlowLoads) -> list[tuple[Any, Any]]:
    """The RPCs that name an operation, with their requests."""
    return [
        (loads.operations.GetOperation, operation_pb2.GetOperationRequest),
        (loads.operations.WaitOperation, operation_pb2.WaitOperationRequest),
        (loads.operations.CancelOperation, operation_pb2.CancelOperationRequest),
    ]


async def test_the_example_of_the_docs_loads_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[4] / "docs" / "models" / "loading.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "qwen3-4b").mkdir()
    async with slow_loads(tmp_path) as loads:
        code = compile(example.replace("127.0.0.1:8080", f"127.0.0.1:{loads.run.port}"), "example", "exec")
        running = asyncio.create_task(asyncio.to_thread(exec, code, {}))
        load = await loads.next()
        loads.report(load, 4, 10)
        load.gate.set_result(None)
        await running
        assert "writer" in await loads.names()
    assert capsys.readouterr().out.splitlines()[-1].strip() == "OPERATION_STATE_SUCCEEDED"


async def test_calls_that_wait_end_when_the_service_stops(tmp_path: Path) -> None:
    async with slow_loads(tmp_path) as loads:
        began = await loads.begin()
        await loads.next()
        waiting = loads.operations.WaitOperation(operation_pb2.WaitOperationRequest(id=began))
        await loads.get(began)
        draining = asyncio.create_task(loads.run.server.drain(0))
        rejection = await rejection_of(waiting)
        await draining
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
