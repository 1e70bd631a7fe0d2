"""The compared servers: how each is started, paused, measured for memory and stopped.

All listen on free loopback ports and use two threads. A server that is not measured is paused by a signal, so that its
idle work doesn't affect the others.
"""

from __future__ import annotations

import os
import shutil
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
ENVOY = Path(sys.executable).with_name("envoy")
LLAMA_SERVER = ROOT / ".cache" / "llama.cpp" / "llama-server"
START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 20  # `transformers serve` may not end by itself
THREADS = 2
_TOKENS_EACH = 1_280  # of the cache of other servers, for each stream
_BLOCK = 32  # tokens of a block of `transformers serve`
DEVICE_STREAMS = 256  # the maximum measured on a device


@dataclass(frozen=True)
class Command:
    """A server's command line. Its ready URL returns 200 when it serves; `model` is the model's name in requests.

    `fields` are the fields of a request's body that make its answers end by their length only.
    """

    arguments: list[str]
    port: int
    ready_path: str
    model: str
    fields: dict[str, Any]
    environment: dict[str, str]


def free_port() -> int:
    """Return a port that is free now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return different ports that are free now."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def command_of(server: str, folder: Path, streams: int, device: str = "cpu") -> Command:
    """Return the command of a server, with settings as in `sluice:KEY=VALUE,KEY=VALUE`.

    `gateway` is this server without Envoy. Settings are the service's. With `type=Q8_0`, `sluice`, `gateway` and
    `llama.cpp` serve a GGUF file with weights of that type.
    `device` is a torch device.
    """
    name, _, settings = server.partition(":")
    pairs = (setting.split("=") for setting in settings.split(",") if setting)
    return _COMMANDS[name](folder, streams, dict(pairs), device)


def _sluice(folder: Path, _streams: int, settings: dict[str, str], device: str) -> Command:
    """Return this server's command, as `make run` starts it."""
    return _product("runner", "envoy", folder, settings, device)


def _gateway(folder: Path, _streams: int, settings: dict[str, str], device: str) -> Command:
    """Return the command of this server without Envoy."""
    return _product("bench.serving.without_envoy", "gateway", folder, settings, device)


def _product(program: str, called: str, folder: Path, settings: dict[str, str], device: str) -> Command:
    """Return the command of a program with the runner's options, one of whose processes is called.

    On a device it has a slot for each measured stream.
    """
    names = ("envoy", "envoy-admin", "gateway", "service", "service-metrics")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    flags = [f"--{name}-port={port}" for name, port in ports.items()]
    quantized = settings.pop("type", "")
    model = gguf_file(folder, quantized) if quantized else folder
    command = [sys.executable, "-m", program, *flags, f"--model=bench={model}"]
    if device != "cpu":
        settings = {"engine.max_batch_sequences": str(DEVICE_STREAMS), **settings}
    settings = {"device": device, **settings}
    environment = {f"SLUICE_SERVICE_{key.upper().replace('.', '__')}": value for key, value in settings.items()}
    return Command(command, ports[called], "/readyz", "bench", {}, environment)


def _llama(folder: Path, streams: int, settings: dict[str, str], _device: str) -> Command:
    """Return the command of llama.cpp's server, with a slot for each stream."""
    port = free_port()
    file = gguf_file(folder, settings.get("type", ""))
    command = [str(LLAMA_SERVER), "--model", str(file), "--port", str(port), "--no-webui"]
    command += ["--parallel", str(streams), "--ctx-size", str(_TOKENS_EACH * streams)]
    command += ["--threads", str(THREADS), "--threads-batch", str(THREADS), "--cont-batching", "--flash-attn", "on"]
    return Command(command, port, "/health", "bench", {"ignore_eos": True}, {})


def _transformers(folder: Path, streams: int, _settings: dict[str, str], device: str) -> Command:
    """Return the command of `transformers serve` with continuous batching, and the cache of as many tokens as others.

    By default it takes most of the memory.
    """
    port = free_port()
    command = [str(Path(sys.executable).with_name("transformers")), "serve", str(folder), "--continuous-batching"]
    command += ["--cb-block-size", str(_BLOCK), "--cb-num-blocks", str(_TOKENS_EACH * max(streams, 16) // _BLOCK)]
    return Command([*command, "--device", device, "--port", str(port)], port, "/health", str(folder), {}, {})


_COMMANDS = {"sluice": _sluice, "gateway": _gateway, "llama.cpp": _llama, "transformers": _transformers}


def installed(device: str = "cpu") -> list[str]:
    """Return the installed servers; print a hint to standard error for each that is left out, except for the device.

    llama.cpp's is built for CPUs.
    """
    found = ["sluice" if ENVOY.is_file() else "gateway"]
    if not ENVOY.is_file():
        print(f"Envoy is left out, since {ENVOY} does not exist: `tools/install.sh` installs it", file=sys.stderr)
    if device == "cpu" and LLAMA_SERVER.is_file():
        found.append("llama.cpp")
    elif device == "cpu":
        print("llama.cpp's server is left out: `tools/install.sh llama` builds it", file=sys.stderr)
    return [*found, "transformers"]


class Server:
    """A running server."""

    def __init__(self, command: Command, process: subprocess.Popen[bytes]) -> None:
        """`process` was started just before."""
        self.command = command
        self.seconds: dict[str, float] = {}  # from its start until it was ready, and until its first answer
        self._began = time.monotonic()
        self._ready_url = f"http://localhost:{command.port}{command.ready_path}"
        self._process = process

    def until_ready(self) -> None:
        """Return when the server is ready; exit if it isn't in time."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with urllib.request.urlopen(self._ready_url, timeout=2):  # noqa: S310  always http
                    self.seconds.setdefault("ready_s", time.monotonic() - self._began)
                    return
            except OSError:  # includes urllib's errors
                time.sleep(0.1)
        sys.exit(f"{self._ready_url} did not answer within {START_TIMEOUT_S} s; see .cache/bench/server.log")

    def note_answer(self) -> None:
        """Record the time of the first answer's end."""
        self.seconds.setdefault("answered_s", time.monotonic() - self._began)

    def pause(self) -> None:
        """Stop all of the server's processes with a signal."""
        for pid in self.processes():
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue the processes; return when the server is ready."""
        for pid in self.processes():
            os.kill(pid, signal.SIGCONT)
        self.until_ready()

    def processes(self) -> list[int]:
        """Return the ids of the first process and all its descendants."""
        found = [self._process.pid]
        for pid in found:
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                found += map(int, children.read_text().split())
        return found

    def memory(self) -> int:
        """Return the bytes of all processes; a shared page is divided among the processes that share it (PSS)."""
        return self._bytes_of("smaps_rollup", "Pss:")

    def peak_memory(self) -> int:
        """Return the sum of the processes' largest resident sets, in bytes; shared pages count in each process."""
        return self._bytes_of("status", "VmHWM:")

    def device_memory(self) -> int:
        """Return the bytes of CUDA devices that the driver counts for the processes; 0 without a driver.

        It is also 0 in containers in which the processes have other ids than the driver knows.
        """
        if shutil.which("nvidia-smi") is None:
            return 0
        query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
        lines = subprocess.run(query, check=True, capture_output=True, text=True).stdout.splitlines()
        mebibytes = {int(pid): int(used) for pid, used in (line.split(", ") for line in lines) if used.isdecimal()}
        return sum(mebibytes.get(pid, 0) for pid in self.processes()) << 20

    def _bytes_of(self, file: str, field: str) -> int:
        """Return the sum of a field, which is in kB, of a file of each process's folder in /proc."""
        lines = [
            line
            for pid in self.processes()
            for line in Path(f"/proc/{pid}/{file}").read_text().splitlines()
            if line.startswith(field)
        ]
        return sum(int(line.split()[1]) * 1024 for line in lines)

    def cpu_seconds(self) -> float:
        """Return the CPU time of all processes."""
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.processes()]
        return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


@dataclass
class Others:
    """The share of all cores' time used by processes other than the server and this benchmark."""

    share: float = 0.0


@contextmanager
def elsewhere(server: Server) -> Iterator[Others]:
    """Measure the CPU share of other processes meanwhile; if one thread loses its core, the other waits for it."""

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
    """Run a server, and yield it when it is ready."""
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
    """Run a process in its own session until SIGINT; its output is written to .cache/bench/server.log."""
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
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
