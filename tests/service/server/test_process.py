"""The process: its exit codes, its last line of output, and its signals."""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from sluice.v1 import chat_pb2_grpc

from tests.e2e.stack import child_pids, free_ports, is_running, suspend
from tests.engine.fakes import until
from tests.service.chat_events import kinds_of
from tests.service.fakes import MODEL, rejection_of, request

pytestmark = pytest.mark.slow  # each test starts a process

ROOT = Path(__file__).resolve().parents[3]
DEMO = ROOT / "demo" / "model"


@dataclass
class Process:
    """A running service and a channel to it."""

    process: asyncio.subprocess.Process
    channel: aio.Channel

    def stream(self) -> Any:
        """Start a stream that ends only with the service, or at its limit."""
        return chat_pb2_grpc.ChatServiceStub(self.channel).StreamChat(request())

    async def until_logged(self, message: str) -> list[str]:
        """Return the log lines up to one with that message."""
        assert self.process.stderr is not None
        lines: list[str] = []
        while line := (await self.process.stderr.readline()).decode():
            lines.append(line)
            if line.startswith("{") and json.loads(line)["message"] == message:
                return lines
        raise AssertionError("".join(lines))

    async def rest(self) -> tuple[int, list[str]]:
        """Return the exit code, and the lines that have not been read."""
        assert self.process.stderr is not None
        lines = (await self.process.stderr.read()).decode().splitlines()
        return await self.process.wait(), lines


@asynccontextmanager
async def started(
    path: str = "hello", flags: Mapping[str, object] | None = None, module: str = "tests.service.scripted_process"
) -> AsyncIterator[Process]:
    """Run a service with a scripted model that repeats `path`; kill it at the end if it is still running."""
    (port,) = free_ports(1)
    chosen = {"port": port, "metrics-port": 0, "model": f"{MODEL}={path}", "drain-delay-s": 0, **(flags or {})}
    words = [f"--{name}={value}" for name, value in chosen.items()]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *words), cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Process(process, channel)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_process_stops_in_order(number: signal.Signals) -> None:
    """After a signal, a call that exceeds the drain time ends with UNAVAILABLE, and the exit code is 0."""
    async with started(flags={"drain-timeout-s": 0.2}) as run:
        await run.until_logged("serving")
        call = run.stream()
        await call.read()
        run.process.send_signal(number)
        rejection = await rejection_of(call)
        code, lines = await run.rest()
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
    assert kinds_of(rejection.events)[-1] == "usage"
    assert code == 0
    assert [json.loads(line)["message"] for line in lines][-1] == "stopped"


@pytest.mark.parametrize("numbers", [[signal.SIGQUIT], [signal.SIGTERM, signal.SIGQUIT]])
async def test_sigquit_ends_the_drain(numbers: list[signal.Signals]) -> None:
    """As the first signal or during the drain, SIGQUIT ends the calls that still run, with a status."""
    async with started(flags={"drain-timeout-s": 1000}) as run:
        await run.until_logged("serving")
        call = run.stream()
        await call.read()
        for number in numbers:
            run.process.send_signal(number)
            if number is signal.SIGTERM:
                await run.until_logged("draining")
        rejection = await rejection_of(call)
        code, _ = await run.rest()
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
    assert code == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_does_not_wait_for_a_worker_that_loads(number: signal.Signals) -> None:
    """A service that is stopped while an engine's process loads a model ends, and that process with it."""
    async with started(flags={"model": f"{MODEL}={DEMO}"}, module="service") as run:
        await run.until_logged("listening")
        pid = run.process.pid
        await until(lambda: bool(child_pids(pid)))
        (worker,) = child_pids(pid)
        suspend(worker)  # it will never have loaded
        run.process.send_signal(number)
        code, lines = await run.rest()
        await until(lambda: not is_running(worker))
    assert code == 0, lines


async def test_a_stop_does_not_wait_for_a_thread_that_loads(tmp_path: Path) -> None:
    """A service that is stopped while a thread of it loads a model ends, whatever the thread waits for."""
    shutil.copytree(DEMO, tmp_path / "model")
    (tmp_path / "model" / "config.json").unlink()
    os.mkfifo(tmp_path / "model" / "config.json")  # opening it waits for a writer
    flags = {"model": f"{MODEL}={tmp_path / 'model'}", "engine.worker": "thread"}
    async with started(flags=flags, module="service") as run:
        await run.until_logged("listening")
        run.process.send_signal(signal.SIGTERM)
        code, lines = await run.rest()
    assert code == 0, lines


async def test_sighup_reloads_the_settings(tmp_path: Path) -> None:
    """At SIGHUP or a change of the file, endpoints and log level are applied, and invalid settings are rejected."""
    path = tmp_path / "service.yaml"
    path.write_text("log_level: info\n")

    def rewrite(text: str) -> None:
        """Replace the file as a whole, because the process may read it at any time."""
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").replace(path)

    def endpoint(model: str) -> str:
        return f"[{{name: other, entities: [{{name: a, model: {model}, traffic_percentage: 100}}]}}]"

    async with started(flags={"config": path}) as run:
        await run.until_logged("serving")
        chat = chat_pb2_grpc.ChatServiceStub(run.channel)
        message = request(model="other", stopping={"max_tokens": 1})
        assert (await rejection_of(chat.Chat(message))).info.reason == "MODEL_NOT_FOUND"
        rewrite(f"endpoints: {endpoint(MODEL)}\nmax_request_bytes: 1000000\n")
        assert (
            '"waiting":["max_request_bytes"]'
            in (await run.until_logged("changed settings take effect at the next start"))[-1]
        )
        assert (await chat.Chat(message)).model == MODEL
        rewrite(f"endpoints: {endpoint('nobody')}\n")
        rejection = await run.until_logged(
            "the settings are invalid; the previous ones stay in use: "
            "endpoints.0.entities: no model named 'nobody' is served"
        )
        assert '"level":"error"' in rejection[-1]
        assert (await chat.Chat(message)).model == MODEL
        rewrite("log_level: error\n")
        await run.until_logged("settings were reloaded")
        run.process.send_signal(signal.SIGHUP)
        run.process.send_signal(signal.SIGTERM)
        code, lines = await run.rest()
    assert (code, lines) == (0, [])


async def test_second_signal_ends_the_process_immediately() -> None:
    """A second signal ends the process without waiting."""
    async with started() as run:
        await run.until_logged("serving")
        call = run.stream()
        await call.read()
        run.process.send_signal(signal.SIGTERM)
        await run.until_logged("draining")
        run.process.send_signal(signal.SIGTERM)
        code, _ = await run.rest()
        call.cancel()
    assert code == -signal.SIGTERM


async def test_process_exits_when_its_engine_dies() -> None:
    """When an engine dies, its streams end with INTERNAL, and the process exits with code 1 and one line."""
    async with started("die:hello") as run:
        await run.until_logged("serving")
        rejection = await rejection_of(run.stream())
        code, lines = await run.rest()
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.INTERNAL, "ENGINE_FAILED")
    assert code == 1
    assert lines[-1] == f"sluice-service: the engine of {MODEL} died: RuntimeError: no memory"
    assert [line for line in lines[:-1] if not line.startswith("{")] == []


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (["--port=many"], 2, "port: "),
        (["--no-such-flag"], 2, "--no-such-flag"),
        (["--config=/nowhere.yaml"], 2, "config: /nowhere.yaml: No such file or directory"),
        (["--model=x=/nowhere"], 1, "the model folder /nowhere does not exist"),
    ],
)
async def test_invalid_settings_are_rejected_in_one_line(flags: list[str], code: int, words: str) -> None:
    """The exit code is 2 for an invalid value and 1 for a missing model; the last line names the cause."""
    (port,) = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "service", f"--port={port}", "--metrics-port=0", "--log-level=error", *flags),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )
    _, stderr = await process.communicate()
    assert process.returncode == code
    (line,) = stderr.decode().splitlines()
    assert line.startswith("sluice-service: ")
    assert words in line


@pytest.mark.parametrize("flag", ["port", "metrics-port"])
async def test_process_rejects_a_port_in_use(flag: str) -> None:
    """The process exits with one line with the address, and code 1."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with started(flags={flag: port}) as run:
            code, lines = await run.rest()
    assert code == 1
    assert lines == [f"sluice-service: can't listen on 127.0.0.1:{port}: Address already in use"]
