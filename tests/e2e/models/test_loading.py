"""Models that administrators load, unload, put to sleep and wake at run time."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import httpx
import pytest
from sluice.v1 import (
    completion_pb2,
    completion_pb2_grpc,
    model_pb2,
    model_pb2_grpc,
    operation_pb2,
    operation_pb2_grpc,
)

from tests.e2e.stack import Stack, is_running, suspend
from tests.waiting import GUARD_S, wait_until

DEMO = Path("demo/model").resolve()
PROMPT = "<|im_start|>user\nTell me about rivers.<|im_end|>\n<|im_start|>assistant\n"


class Run(NamedTuple):
    """The product with one model and a folder of others."""

    stack: Stack
    channel: grpc.Channel

    @property
    def models(self) -> Any:
        return model_pb2_grpc.ModelServiceStub(self.channel)

    @property
    def operations(self) -> Any:
        return operation_pb2_grpc.OperationServiceStub(self.channel)

    def load(self, name: str, path: str = "second", **fields: Any) -> model_pb2.Model:
        model: model_pb2.Model = self.models.LoadModel(model_pb2.LoadModelRequest(name=name, path=path, **fields)).model
        return model

    def unload(self, name: str) -> None:
        self.models.UnloadModel(model_pb2.UnloadModelRequest(model=name))

    @contextmanager
    def loaded(self, name: str) -> Iterator[int]:
        """Load a model within the block, and yield the process id of its engine."""
        before = self.stack.workers()
        self.load(name)
        (worker,) = set(self.stack.workers()) - set(before)
        try:
            yield worker
        finally:
            self.unload(name)

    def ask(self, model: str) -> httpx.Response:
        body = {"model": model, "prompt": PROMPT, "max_tokens": 24, "temperature": 0}
        return httpx.post(f"{self.stack.url}/v1/completions", json=body, timeout=GUARD_S)

    def text(self, model: str) -> str:
        answer = self.ask(model)
        assert answer.status_code == 200, answer.text
        text: str = answer.json()["choices"][0]["text"]
        return text

    def listed(self) -> dict[str, model_pb2.Model]:
        return {each.name: each for each in self.models.ListModels(model_pb2.ListModelsRequest()).models}

    def stream(self, model: str) -> Iterator[completion_pb2.StreamCompleteResponse]:
        request = completion_pb2.CompleteRequest(model=model)
        request.prompts.add().text = PROMPT
        request.sampling.temperature = 0
        request.stopping.max_tokens = 24
        stub: Any = completion_pb2_grpc.CompletionServiceStub(self.channel)
        events: Iterator[completion_pb2.StreamCompleteResponse] = stub.StreamComplete(request)
        return events


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    root = tmp_path_factory.mktemp("models")
    shutil.copytree(DEMO, root / "second")
    shutil.copytree(DEMO, root / "broken")
    os.truncate(root / "broken" / "model.safetensors", 1000)
    stack = Stack(f"--model=demo={DEMO}", environment={"SLUICE_SERVICE_MODELS_ROOT": str(root)})
    try:
        stack.wait_for("sluice is ready")
        with grpc.insecure_channel(stack.url.removeprefix("http://")) as channel:
            yield Run(stack, channel)
    finally:
        stack.stop()


def test_model_is_served_between_load_and_unload(run: Run) -> None:
    """The engine's process, and its memory, are gone when the unload returns."""
    with run.loaded("second") as worker:
        assert run.text("second") == run.text("demo")
        assert list(run.listed()) == ["demo", "second"]
    assert not is_running(worker)
    assert list(run.listed()) == ["demo"]
    gone = run.ask("second")
    assert gone.status_code == 404
    assert "'second'" in gone.json()["error"]["message"]
    assert run.text("demo")


def test_settings_of_a_load_apply_to_its_model(run: Run) -> None:
    model = run.load("small", version="7", dtype="float32", backend="torch", max_model_len=64, cache_share=0.25)
    try:
        assert (model.version, model.dtype, model.max_model_len) == ("7", "float32", 64)
        assert not model.supports_resume  # the torch backend cannot
    finally:
        run.unload("small")


def test_an_unload_waits_for_running_requests(run: Run) -> None:
    expected = run.text("demo")
    with run.loaded("second") as worker:
        stream = run.stream("second")
        first = next(stream)
    assert "".join(each.delta.text for each in (first, *stream)) == expected
    assert not is_running(worker)


def test_a_sleeping_model_is_served_again_when_woken(run: Run) -> None:
    """A sleeping model has no process, keeps its name, and rejects requests with the reason."""
    expected = run.text("demo")
    (worker,) = run.stack.workers()
    for _ in range(2):
        run.models.SleepModel(model_pb2.SleepModelRequest(model="demo"))
    assert not is_running(worker)
    assert run.stack.workers() == []
    assert run.listed()["demo"].is_asleep
    refused = run.ask("demo")
    assert refused.status_code == 503
    assert "asleep" in refused.json()["error"]["message"]
    assert "retry-after" in refused.headers
    for _ in range(2):
        run.models.WakeModel(model_pb2.WakeModelRequest(model="demo"))
    assert not run.listed()["demo"].is_asleep
    assert run.text("demo") == expected
    (other,) = run.stack.workers()
    assert other != worker


def test_a_sleeping_model_can_be_unloaded(run: Run) -> None:
    with run.loaded("second"):
        run.models.SleepModel(model_pb2.SleepModelRequest(model="second"))
    assert list(run.listed()) == ["demo"]


def test_a_load_continues_without_its_client(run: Run) -> None:
    is_cancelled = False
    while not is_cancelled:  # a load that has returned before it is cancelled proves nothing
        call = run.models.LoadModel.future(model_pb2.LoadModelRequest(name="second", path="second"))
        wait_until(lambda: len(run.stack.workers()) > 1)
        is_cancelled = call.cancel()
        wait_until(lambda: "second" in run.listed())
        run.unload("second")


def cache_files(run: Run) -> int:
    """Return the number of caches in memory that the service has open."""
    found = 0
    for each in Path(f"/proc/{run.stack.children()['service']}/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed meanwhile
            found += "sluice-cache" in str(each.readlink())
    return found


def cancel(run: Run, begin: Callable[[], operation_pb2.Operation], undo: Callable[[], None]) -> None:
    """Begin an operation, stop the process that loads, and cancel the operation.

    If the load has ended before, undo it and try again.
    """
    before = set(run.stack.workers())
    while True:
        operation = begin()
        wait_until(lambda: bool(set(run.stack.workers()) - before))
        (worker,) = set(run.stack.workers()) - before
        suspend(worker)
        answer = run.operations.CancelOperation(operation_pb2.CancelOperationRequest(id=operation.id))
        if answer.operation.state == operation_pb2.OPERATION_STATE_CANCELLED:
            return
        os.kill(worker, signal.SIGCONT)
        undo()


def test_a_cancelled_load_leaves_no_process_and_no_file(run: Run) -> None:
    before, files = run.stack.workers(), cache_files(run)
    expected = run.text("demo")
    request = model_pb2.LoadModelRequest(name="second", path="second", background=True)
    cancel(run, lambda: run.models.LoadModel(request).operation, lambda: run.unload("second"))
    assert (run.stack.workers(), cache_files(run)) == (before, files)
    assert list(run.listed()) == ["demo"]
    assert run.text("demo") == expected
    with run.loaded("second"):
        assert run.text("second") == expected


def test_a_cancelled_wake_leaves_the_model_asleep(run: Run) -> None:
    def sleep() -> None:
        run.models.SleepModel(model_pb2.SleepModelRequest(model="demo"))

    expected = run.text("demo")
    sleep()
    request = model_pb2.WakeModelRequest(model="demo", background=True)
    cancel(run, lambda: run.models.WakeModel(request).operation, sleep)
    assert run.stack.workers() == []
    assert run.listed()["demo"].is_asleep
    operation = run.models.WakeModel(request).operation
    ended = run.operations.WaitOperation(operation_pb2.WaitOperationRequest(id=operation.id)).operation
    assert ended.state == operation_pb2.OPERATION_STATE_SUCCEEDED
    assert ended.progress.loaded_bytes == ended.progress.total_bytes > 0
    assert run.text("demo") == expected


ERRORS: dict[str, tuple[Callable[[Run], object], grpc.StatusCode, str]] = {
    "a name that is taken": (lambda run: run.load("demo"), grpc.StatusCode.ALREADY_EXISTS, "'demo' is taken"),
    "a folder outside": (lambda run: run.load("x", str(DEMO)), grpc.StatusCode.INVALID_ARGUMENT, "path"),
    "a hub's id": (lambda run: run.load("x", "org/model"), grpc.StatusCode.INVALID_ARGUMENT, "path"),
    "no model": (lambda run: run.load("x", "."), grpc.StatusCode.FAILED_PRECONDITION, "No such file"),
    "a broken model": (lambda run: run.load("x", "broken"), grpc.StatusCode.FAILED_PRECONDITION, "safetensors"),
    "no such backend": (lambda run: run.load("x", backend="abacus"), grpc.StatusCode.FAILED_PRECONDITION, "'abacus'"),
    "an unload of nothing": (lambda run: run.unload("x"), grpc.StatusCode.NOT_FOUND, "'x'"),
    "a nap of nothing": (
        lambda run: run.models.SleepModel(model_pb2.SleepModelRequest(model="x")),
        grpc.StatusCode.NOT_FOUND,
        "'x'",
    ),
}


@pytest.mark.parametrize("error", ERRORS)
def test_invalid_changes_are_rejected_with_their_reason(run: Run, error: str) -> None:
    call, code, text = ERRORS[error]
    with pytest.raises(grpc.RpcError) as caught:
        call(run)
    assert caught.value.code() is code
    assert text in str(caught.value.details())
    assert len(run.stack.workers()) == 1
    assert list(run.listed()) == ["demo"]


def test_last_model_can_be_unloaded(run: Run) -> None:
    """The service continues without a model and loads another one."""
    run.unload("demo")
    assert run.ask("demo").status_code == 404
    run.load("demo")
    assert run.text("demo")
