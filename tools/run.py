"""Runs the whole product on one machine: service, gateway and Envoy, until Ctrl-C.

Owns three child processes: starts them, waits until the front door is ready, prints the addresses, and stops them in
order, the front door first. A port in use, a missing model folder or a child that dies ends the run with one line and
a non-zero code. Ports and hosts are settings: flags, or the same environment variables that service and gateway read.
"""

import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
import urllib.request
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import grpc
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic import AliasChoices, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

ROOT = Path(__file__).resolve().parent.parent
READY_TIMEOUT_S = 300  # a large model loads from a slow disk
STOP_TIMEOUT_S = 60  # longer than the service's own draining


class RunError(Exception):
    """The run can't go on; the text is the one line that says why."""


class Settings(BaseSettings):
    """Where everything listens and what it serves."""

    model_config = SettingsConfigDict(
        env_prefix="SLUICE_", cli_parse_args=True, cli_prog_name="run", cli_kebab_case=True, extra="ignore"
    )

    host: str = Field("127.0.0.1", description="the address that all three listen on")
    envoy_port: int = Field(8080, ge=1, le=65535, description="the front door: REST, gRPC and gRPC-web")
    envoy_admin_port: int = Field(9901, ge=1, le=65535, description="Envoy's own pages")
    gateway_port: int = Field(8000, ge=1, le=65535, description="the gateway's REST and /metrics")
    service_port: int = Field(50051, ge=1, le=65535, description="the service's gRPC")
    service_metrics_port: int = Field(9464, ge=1, le=65535, description="the service's /metrics")
    model: dict[str, str] = Field(
        default={},
        description="NAME=FOLDER of each model to serve, or NAME=ORG/MODEL on the model hub; none: the bundled ones",
    )
    endpoints_file: Path = Field(
        ROOT / ".cache" / "endpoints.json", description="keeps the endpoints that callers make"
    )
    otlp_endpoint: str | None = Field(
        None,
        validation_alias=AliasChoices("otlp_endpoint", "SLUICE_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        description="host:port or URL of an OTLP gRPC collector; none: no traces leave the machine",
    )

    def ports(self) -> dict[str, int]:
        """Every port with the name of its setting."""
        return {name: value for name, value in self.model_dump().items() if name.endswith("_port")}


def envoy_config(settings: Settings) -> dict[str, Any]:
    """envoy/envoy.yaml with these settings' addresses; without a collector, without tracing."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "envoy" / "envoy.yaml").read_text())
    resources = config["static_resources"]
    listener = resources["listeners"][0]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    addresses = {"service": settings.service_port, "gateway": settings.gateway_port}

    def place(address: dict[str, Any], host: str, port: int) -> None:
        address["socket_address"] = {"address": host, "port_value": port}

    place(listener["address"], settings.host, settings.envoy_port)
    place(config["admin"]["address"], "127.0.0.1", settings.envoy_admin_port)
    for cluster in resources["clusters"]:
        host, port = settings.host, addresses.get(cluster["name"], 0)
        if cluster["name"] == "otlp":
            if settings.otlp_endpoint is None:
                continue
            host, port = collector_address(settings.otlp_endpoint)
            cluster["type"] = "STRICT_DNS"  # a collector is often named, not numbered
        place(cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"], host, port)
    if settings.otlp_endpoint is None:
        del manager["tracing"]
        resources["clusters"] = [cluster for cluster in resources["clusters"] if cluster["name"] != "otlp"]
    return config


def collector_address(endpoint: str) -> tuple[str, int]:
    """(host, port) of `http://host:port` or `host:port`; OTLP's own port 4317 if none is given."""
    host, _, port = endpoint.rpartition("://")[2].rstrip("/").partition(":")
    if not host or not (port or "4317").isdigit():
        raise RunError(f"otlp_endpoint {endpoint!r} is not host:port")
    return host, int(port or 4317)


def check(settings: Settings) -> None:
    """Refuse what could only fail later and less clearly, and make the folder of the endpoints' file."""
    taken: dict[int, str] = {}
    for name, port in settings.ports().items():
        if taken.setdefault(port, name) != name:
            raise RunError(f"{taken[port]} and {name} are both {port}")
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((settings.host, port))
            except OSError as error:
                raise RunError(
                    f"{settings.host}:{port} can't be listened on ({error.strerror}); set SLUICE_{name.upper()}"
                ) from error
    for name, model in settings.model.items():
        may_be_hub_id = model.count("/") == 1 and model[0] not in "./~" and not Path(model).exists()
        if not may_be_hub_id and not Path(model, "config.json").is_file():
            raise RunError(f"model {name}: {model} holds no config.json")
    try:
        settings.endpoints_file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"endpoints_file {settings.endpoints_file}: {error.strerror}") from error


def commands(settings: Settings, envoy_yaml: Path) -> dict[str, list[str]]:
    """Each child's command line, in the order of their start."""
    service = [sys.executable, "-m", "service", "--host", settings.host, "--port", str(settings.service_port)]
    service += ["--metrics-port", str(settings.service_metrics_port)]
    service += ["--endpoints-file", str(settings.endpoints_file.resolve())]
    for name, model in settings.model.items():
        service += ["--model", f"{name}={model}"]
    gateway = [sys.executable, "-m", "gateway", "--host", settings.host, "--port", str(settings.gateway_port)]
    gateway += ["--target", f"{settings.host}:{settings.service_port}"]
    if settings.otlp_endpoint is not None:
        service += ["--otlp-endpoint", settings.otlp_endpoint]
        gateway += ["--otlp-endpoint", settings.otlp_endpoint]
    envoy = [str(Path(sys.executable).with_name("envoy")), "-c", str(envoy_yaml)]
    envoy += ["--concurrency", "1", "--disable-hot-restart", "-l", "warning"]
    envoy += ["--file-flush-interval-msec", "500"]  # of its access log
    return {"service": service, "gateway": gateway, "envoy": envoy}


class Children:
    """The running processes by name. Used by one event loop."""

    def __init__(self) -> None:
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._logs: list[asyncio.Task[None]] = []

    async def start(self, name: str, command: list[str]) -> None:
        """Start one in a session of its own, so that Ctrl-C reaches only the runner, which then stops them in order."""
        process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            stdin=asyncio.subprocess.DEVNULL, start_new_session=True, limit=1 << 20,
        )  # fmt: skip
        self._processes[name] = process
        self._logs.append(asyncio.create_task(self._copy_log(name, process)))

    async def _copy_log(self, name: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # noqa: S101 it was made with PIPE
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:
                continue  # a line above the limit is left out; a child whose log nobody reads would stand still
            if not line:
                return
            sys.stdout.write(f"{name:7} | {line.decode(errors='replace')}")
            sys.stdout.flush()

    async def first_exit(self) -> tuple[str, int]:
        """(name, exit code) of the first one that ends."""
        waits = {asyncio.create_task(process.wait()): name for name, process in self._processes.items()}
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            task = next(iter(done))
            return waits[task], task.result()
        finally:
            for task in waits:
                task.cancel()

    async def stop(self) -> None:
        """Stop them in reverse order of their start, each when the one before is gone."""
        for process in reversed(self._processes.values()):
            if process.returncode is None:
                process.terminate()
                try:
                    await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
                except TimeoutError:
                    process.kill()
                    await process.wait()
        await asyncio.gather(*self._logs)

    def kill(self) -> None:
        """End them all now."""
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()


async def until_ready(settings: Settings) -> None:
    """Return when the front door serves both kinds of callers: /readyz answers 200 and gRPC's health SERVING."""
    door = f"{settings.host}:{settings.envoy_port}"

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://{door}/readyz", timeout=2), grpc.insecure_channel(door) as channel:
                health: Any = health_pb2_grpc.HealthStub(channel)  # it ships no types
                answer = health.Check(health_pb2.HealthCheckRequest(), timeout=2)
                return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
        except (OSError, grpc.RpcError):  # urllib's errors are OSErrors
            return False

    while not await asyncio.to_thread(ready):  # noqa: ASYNC110 another process becomes ready: no event tells
        await asyncio.sleep(0.2)


def greeting(settings: Settings) -> str:
    """What a newcomer needs to go on."""
    door, name = f"http://{settings.host}:{settings.envoy_port}", next(iter(settings.model), "sluice-demo")
    body = json.dumps({"model": name, "stream": True, "messages": [{"role": "user", "content": "Hello! Who are you?"}]})
    return f"""
sluice is ready.
  front door (Envoy)   {door}   REST, SSE, gRPC, gRPC-web
  gateway              http://{settings.host}:{settings.gateway_port}   REST, SSE, /metrics
  service              {settings.host}:{settings.service_port}   gRPC; metrics at http://{settings.host}:{settings.service_metrics_port}/metrics
  Envoy's own pages    http://127.0.0.1:{settings.envoy_admin_port}
  the API, described   {door}/docs

Try:
  curl -N {door}/v1/chat/completions -H 'content-type: application/json' -d '{body}'

Ctrl-C stops everything.
"""


async def run(settings: Settings) -> None:
    """Start all, serve until a signal or a child's end, stop all."""
    check(settings)
    loop, asked_to_stop, children = asyncio.get_running_loop(), asyncio.Event(), Children()

    def on_signal() -> None:
        if asked_to_stop.is_set():
            children.kill()  # the second Ctrl-C doesn't wait
        asked_to_stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)

    async def unless_stopped(work: Awaitable[object]) -> bool:
        """Whether `work` ended; False if a signal came first. RunError if a child died."""
        done = asyncio.ensure_future(work)
        stopped, died = asyncio.create_task(asked_to_stop.wait()), asyncio.create_task(children.first_exit())
        try:
            await asyncio.wait({done, stopped, died}, return_when=asyncio.FIRST_COMPLETED)
            if not stopped.done() and died.done():
                name, code = died.result()
                raise RunError(f"{name} ended with code {code}; its last lines are above")
            return not stopped.done() and done.done()
        finally:
            for task in (done, stopped, died):
                task.cancel()

    with tempfile.NamedTemporaryFile("w", prefix="sluice-envoy-", suffix=".yaml") as envoy_yaml:
        yaml.safe_dump(envoy_config(settings), envoy_yaml)
        envoy_yaml.flush()
        try:
            for name, command in commands(settings, Path(envoy_yaml.name)).items():
                await children.start(name, command)
            try:
                ready = await asyncio.wait_for(unless_stopped(until_ready(settings)), READY_TIMEOUT_S)
            except TimeoutError as error:
                raise RunError(f"not ready within {READY_TIMEOUT_S} s") from error
            if ready:
                print(greeting(settings), flush=True)
                await unless_stopped(asyncio.Event().wait())
        finally:
            await children.stop()


def main() -> int:
    """Returns the exit code: 0 after Ctrl-C, 1 if the run failed, 2 for a bad setting."""
    try:
        settings = Settings()
    except ValidationError as error:
        for problem in error.errors():
            print(f"run: {'.'.join(map(str, problem['loc']))}: {problem['msg']}", file=sys.stderr)
        return 2
    try:
        asyncio.run(run(settings))
    except RunError as error:
        print(f"run: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
