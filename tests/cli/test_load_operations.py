"""`sluice models load` and an operation of a scripted server: the bar, and Ctrl-C."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from sluice.v1 import model_pb2, model_pb2_grpc, operation_pb2, operation_pb2_grpc

from cli.calls.load_bar import LoadBar
from cli.calls.operation import load
from cli.calls.rpc import call
from cli.calls.server import Server, ServerError
from tests.e2e.stack import ROOT
from tests.waiting import GUARD_S

RUNNING = operation_pb2.Operation(id="1", model="writer", state=operation_pb2.OPERATION_STATE_RUNNING)
ENDS = {
    True: operation_pb2.Operation(id="1", model="writer", state=operation_pb2.OPERATION_STATE_CANCELLED),
    False: operation_pb2.Operation(id="1", model="writer", state=operation_pb2.OPERATION_STATE_SUCCEEDED),
}


class Scripted(model_pb2_grpc.ModelServiceServicer, operation_pb2_grpc.OperationServiceServicer):
    """A server with one load, which ends when it is cancelled."""

    def __init__(self, *, is_cancelled: bool) -> None:
        """`is_cancelled` is False for a load that ends before its cancellation."""
        self.end = ENDS[is_cancelled]
        self.is_awaited = threading.Event()
        self.ended = threading.Event()
        self.affinities: set[str] = set()

    def LoadModel(self, request: model_pb2.LoadModelRequest, context: Any) -> model_pb2.LoadModelResponse:  # noqa: N802
        assert request.background
        self._note(context)
        return model_pb2.LoadModelResponse(operation=RUNNING)

    def WaitOperation(self, request: Any, context: Any) -> operation_pb2.WaitOperationResponse:  # noqa: N802
        assert request.id == "1"
        self._note(context)
        self.is_awaited.set()
        self.ended.wait(GUARD_S)
        return operation_pb2.WaitOperationResponse(operation=self.end)

    def CancelOperation(self, request: Any, context: Any) -> operation_pb2.CancelOperationResponse:  # noqa: N802
        assert request.id == "1"
        self._note(context)
        self.ended.set()
        return operation_pb2.CancelOperationResponse(operation=self.end)

    def _note(self, context: Any) -> None:
        self.affinities.add(dict(context.invocation_metadata())["x-sluice-affinity"])


@contextmanager
def serving(scripted: Scripted) -> Iterator[str]:
    """Serve on a free port, and yield the URL."""
    server = grpc.server(ThreadPoolExecutor(4))
    model_pb2_grpc.add_ModelServiceServicer_to_server(scripted, server)
    operation_pb2_grpc.add_OperationServiceServicer_to_server(scripted, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop(None)


def interrupted(scripted: Scripted) -> tuple[int, str]:
    """Return the exit code and the errors of a load that is interrupted while it runs."""
    with serving(scripted) as url:
        command = [sys.executable, "-m", "cli", "models", "load", "writer", "third", "--key", "k", "--url", url]
        process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=os.environ)
        assert scripted.is_awaited.wait(GUARD_S)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=GUARD_S)
    return process.returncode, errors


def test_an_interrupted_load_is_cancelled() -> None:
    """All calls have the same affinity, so that one replica gets them."""
    scripted = Scripted(is_cancelled=True)  # type: ignore[abstract]  # its other methods are not called
    assert interrupted(scripted) == (130, "sluice: the load of writer is cancelled\n")
    assert scripted.ended.is_set()
    assert scripted.affinities == {"load writer"}


def test_a_load_that_ends_before_its_cancellation_is_reported() -> None:
    scripted = Scripted(is_cancelled=False)  # type: ignore[abstract]  # its other methods are not called
    code, errors = interrupted(scripted)
    assert (code, errors) == (130, "sluice: the load of writer had ended before it was cancelled\n")


def test_a_model_may_have_a_name_that_no_header_can_have() -> None:
    scripted = Scripted(is_cancelled=False)  # type: ignore[abstract]  # its other methods are not called
    scripted.ended.set()
    request = model_pb2.LoadModelRequest(name="modèle", path="third")
    with serving(scripted) as url:
        load(url, "k", "", "LoadModel", request, model_pb2.LoadModelResponse)
    assert scripted.affinities == {"load mod%C3%A8le"}


@pytest.mark.parametrize("key", ["clé", "two\nlines"])
def test_a_key_that_no_header_can_have_is_rejected(key: str) -> None:
    """REST and gRPC reject it in the same way, before a call."""
    text = "the API key must have printable ASCII characters only"
    with pytest.raises(ServerError, match=text):
        Server("http://127.0.0.1:1", key)
    with pytest.raises(ServerError, match=text):
        call("http://127.0.0.1:1", key, "", "a.B/C", model_pb2.ListModelsRequest(), model_pb2.ListModelsResponse)


class Terminal(io.StringIO):
    """A terminal that keeps what is written."""

    def isatty(self) -> bool:
        return True


def test_bar_shows_the_phase_and_the_bytes() -> None:
    terminal = Terminal()
    bar = LoadBar("writer", terminal)
    progress = operation_pb2.LoadProgress(phase=operation_pb2.LOAD_PHASE_QUEUED)
    bar.update(operation_pb2.Operation(progress=progress))
    progress = operation_pb2.LoadProgress(
        phase=operation_pb2.LOAD_PHASE_READING, loaded_bytes=2 * 10**9, total_bytes=4 * 10**9
    )
    bar.update(operation_pb2.Operation(progress=progress))
    bar.clear()
    queued, reading, end = terminal.getvalue().split("\r\x1b[2K")[1:]
    assert (queued, end) == ("writer: queued", "")
    assert reading == f"writer: reading [{'#' * 15}{'.' * 15}] 2.00 of 4.00 GB"


def test_bar_is_shown_in_a_terminal_only() -> None:
    output = io.StringIO()
    bar = LoadBar("writer", output)
    bar.update(RUNNING)
    bar.clear()
    assert (bar.is_shown, output.getvalue()) == (False, "")
