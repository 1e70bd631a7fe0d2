"""The servers that are compared: how each is started, paused, measured for memory and stopped.

All listen on loopback and free ports, and are given two threads. A server that is not measured is stopped by a signal,
so that its idling costs the others nothing.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import shapes
from bench.serving.gguf_weights import gguf_file

ROOT = shapes.ROOT
LLAMA_SERVER = ROOT / ".cache" / "llama.cpp" / "llama-server"
START_TIMEOUT_S = 180
THREADS = 2
DEVICE_STREAMS = 256  # the most that are measured on a device


@dataclass(frozen=True)
class Command:
    """What starts a server: its ready URL answers 200 when it serves; `model` is the model's name there.

    `fields` are those of a request's body that make its answers end by their length only.
    """

    arguments: list[str]
    port: int
    ready_path: str
    model: str
    fields: dict[str, Any]
    environment: dict[str, str]


def free_port() -> int:
    """A port that nothing listens on now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different ports that nothing listens on now."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def command_of(server: str, folder: Path, streams: int, device: str = "cpu") -> Command:
    """The command of `sluice`, `llama.cpp` or `transformers`, or of one with settings, as `sluice:KEY=VALUE,KEY=VALUE`.

    They are the service's, or for llama.cpp the type of its weights (`type=Q8_0`). `device` is a torch device.
    """
    name, _, settings = server.partition(":")
    pairs = (setting.split("=") for setting in settings.split(",") if setting)
    return _COMMANDS[name](folder, streams, dict(pairs), device)


def _sluice(folder: Path, _streams: int, settings: dict[str, str], device: str) -> Command:
    """This server as `make run` starts it; on a device with places for as many sequences as are measured there."""
    names = ("envoy", "envoy-admin", "gateway", "service", "service-metrics")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    flags = [f"--{name}-port={port}" for name, port in ports.items()]
    command = [sys.executable, "-m", "runner", *flags, f"--model=bench={folder}"]
    if device != "cpu":
        settings = {"engine.max_batch_sequences": str(DEVICE_STREAMS), **settings}
    settings = {"device": device, **settings}
    environment = {f"SLUICE_SERVICE_{key.upper().replace('.', '__')}": value for key, value in settings.items()}
    return Command(command, ports["envoy"], "/readyz", "bench", {}, environment)


def _llama(folder: Path, streams: int, settings: dict[str, str], _device: str) -> Command:
    """llama.cpp's server, with a slot for each stream."""
    port = free_port()
    file = gguf_file(folder, settings.get("type", ""))
    command = [str(LLAMA_SERVER), "--model", str(file), "--port", str(port), "--no-webui"]
    command += ["--parallel", str(streams), "--ctx-size", str(1_280 * streams)]
    command += ["--threads", str(THREADS), "--threads-batch", str(THREADS), "--cont-batching", "--flash-attn", "on"]
    return Command(command, port, "/health", "bench", {"ignore_eos": True}, {})


def _transformers(folder: Path, _streams: int, _settings: dict[str, str], device: str) -> Command:
    """`transformers serve` with continuous batching."""
    port = free_port()
    command = [str(Path(sys.executable).with_name("transformers")), "serve", str(folder), "--continuous-batching"]
    return Command([*command, "--device", device, "--port", str(port)], port, "/health", str(folder), {}, {})


_COMMANDS = {"sluice": _sluice, "llama.cpp": _llama, "transformers": _transformers}


def installed(device: str = "cpu") -> list[str]:
    """The servers that are here; a line on standard error if llama.cpp's isn't, which is built for CPUs."""
    if device != "cpu":
        return [name for name in _COMMANDS if name != "llama.cpp"]
    if LLAMA_SERVER.is_file():
        return list(_COMMANDS)
    print("llama.cpp's server is left out: `tools/install.sh llama` builds it", file=sys.stderr)
    return [name for name in _COMMANDS if name != "llama.cpp"]


class Server:
    """A server that is up."""

    def __init__(self, command: Command, process: subprocess.Popen[bytes]) -> None:
        self.command = command
        self._ready_url = f"http://localhost:{command.port}{command.ready_path}"
        self._process = process

    def until_ready(self) -> None:
        """Return when it serves; exit if it doesn't in time."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with urllib.request.urlopen(self._ready_url, timeout=2):  # noqa: S310 it is http
                    return
            except OSError:  # urllib's errors are such
                time.sleep(0.1)
        sys.exit(f"{self._ready_url} did not answer within {START_TIMEOUT_S} s; see .cache/bench/server.log")

    def pause(self) -> None:
        """Take the cores away from all its processes."""
        for pid in self.processes():
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Give them back; return when it serves."""
        for pid in self.processes():
            os.kill(pid, signal.SIGCONT)
        self.until_ready()

    def processes(self) -> list[int]:
        """The first process and all that it started."""
        found = [self._process.pid]
        for pid in found:
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                found += map(int, children.read_text().split())
        return found

    def memory(self) -> int:
        """Bytes that all its processes hold, each shared page divided among those that share it (PSS)."""
        lines = [
            line
            for pid in self.processes()
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            if line.startswith("Pss:")
        ]
        return sum(int(line.split()[1]) * 1024 for line in lines)

    def cpu_seconds(self) -> float:
        """Processor time that all its processes have taken."""
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.processes()]
        return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


@dataclass
class Others:
    """The share of all cores' time that neither a server nor this bench took."""

    share: float = 0.0


@contextmanager
def elsewhere(server: Server) -> Iterator[Others]:
    """Measures what other work takes meanwhile: two threads that wait for one that has lost its core come to a halt."""

    def ours() -> float:
        times = os.times()
        return server.cpu_seconds() + times.user + times.system + times.children_user + times.children_system

    def all_busy() -> float:
        user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
        return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")

    others = Others()
    began, ours_before, busy_before = time.monotonic(), ours(), all_busy()
    yield others
    cores_s = (time.monotonic() - began) * (os.cpu_count() or 1)
    others.share = max(all_busy() - busy_before - (ours() - ours_before), 0.0) / cores_s


@contextmanager
def serving(command: Command) -> Iterator[Server]:
    """The server, once it serves."""
    with running(command.arguments, command.environment) as process:
        server = Server(command, process)
        server.until_ready()
        try:
            yield server
        finally:
            for pid in server.processes():
                os.kill(pid, signal.SIGCONT)


@contextmanager
def running(command: list[str], environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process in its own session, ended by Ctrl-C's signal; what it printed is in .cache/bench/server.log."""
    (ROOT / ".cache" / "bench").mkdir(parents=True, exist_ok=True)
    with (ROOT / ".cache" / "bench" / "server.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True, env=os.environ | (environment or {})
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
