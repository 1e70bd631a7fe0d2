"""Runs the whole product on one machine: service, gateway and Envoy, until Ctrl-C.

Starts the three processes, waits until Envoy serves, prints the addresses, and stops the processes in reverse order:
Envoy, gateway, service. A port in use, a missing model folder or a process that exits ends the run with a one-line
error and a non-zero exit code. Every setting is a flag or an environment variable, `SLUICE_` and the flag's name.
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
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml
from pydantic import AliasChoices, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # to be run by its path, too

from tools.envoy_config import AddressError, Addresses, envoy_config  # noqa: E402 the line above says why

READY_TIMEOUT_S = 300  # a large model loads from a slow disk
STOP_TIMEOUT_S = 60  # longer than the service's own draining


class RunError(Exception):
    """The run can't go on; the message is one line for the user."""


class Settings(BaseSettings):
    """Run service, gateway and Envoy on one machine, until Ctrl-C."""

    model_config = SettingsConfigDict(
        env_prefix="SLUICE_", cli_parse_args=True, cli_prog_name="run", cli_kebab_case=True, extra="ignore"
    )

    host: str = Field("127.0.0.1", description="address that all three processes listen on")
    envoy_port: int = Field(8080, ge=1, le=65535, description="Envoy's port: REST, gRPC and gRPC-web")
    envoy_admin_port: int = Field(9901, ge=1, le=65535, description="port of Envoy's admin interface")
    gateway_port: int = Field(8000, ge=1, le=65535, description="the gateway's port: REST and /metrics")
    service_port: int = Field(50051, ge=1, le=65535, description="the service's gRPC port")
    service_metrics_port: int = Field(9464, ge=1, le=65535, description="port of the service's /metrics")
    model: dict[str, str] = Field(
        default={},
        description="a model to serve, NAME=FOLDER or NAME=ORG/MODEL (a hub id); repeat it for more models; "
        "without it, the bundled ones",
    )
    endpoints_file: Path = Field(
        ROOT / ".cache" / "endpoints.json", description="file that stores the endpoints created through the API"
    )
    otlp_endpoint: str | None = Field(
        None,
        validation_alias=AliasChoices("otlp_endpoint", "SLUICE_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        description="host:port or URL of an OTLP gRPC collector; without it, nothing is exported",
    )

    def addresses(self) -> Addresses:
        """What Envoy's configuration is made of."""
        return Addresses(**{field.name: getattr(self, field.name) for field in fields(Addresses)})

    def ports(self) -> dict[str, int]:
        """Every port with the name of its setting."""
        return {name: value for name, value in self.model_dump().items() if name.endswith("_port")}


def check(settings: Settings) -> None:
    """Check ports and model folders before anything starts, and make the folder of the endpoints' file."""
    used: dict[int, str] = {}
    for name, port in settings.ports().items():
        if used.setdefault(port, name) != name:
            raise RunError(f"{used[port]} and {name} are both {port}; each needs a port of its own")
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((settings.host, port))
            except OSError as error:
                raise RunError(
                    f"cannot listen on {settings.host}:{port} ({error.strerror}); "
                    f"choose another {name} with --{name.replace('_', '-')} or SLUICE_{name.upper()}"
                ) from error
    for name, model in settings.model.items():
        may_be_hub_id = model.count("/") == 1 and model[0] not in "./~" and not Path(model).exists()
        if not may_be_hub_id and not Path(model, "config.json").is_file():
            raise RunError(
                f"model {name}: {model} has no config.json; expected a model's folder or a hub id, ORG/MODEL"
            )
    try:
        settings.endpoints_file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"endpoints_file {settings.endpoints_file}: {error.strerror}") from error


def commands(settings: Settings, envoy_yaml: Path) -> dict[str, list[str]]:
    """Each process's command line, in start order."""
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
                continue  # a line above the limit is dropped; if nobody read the pipe, the process would block
            if not line:
                return
            sys.stdout.write(f"{name:7} | {line.decode(errors='replace')}")
            sys.stdout.flush()

    async def first_exit(self) -> tuple[str, int]:
        """(name, exit code) of the first one that exits."""
        waits = {asyncio.create_task(process.wait()): name for name, process in self._processes.items()}
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            task = next(iter(done))
            return waits[task], task.result()
        finally:
            for task in waits:
                task.cancel()

    async def stop(self) -> None:
        """Stop them in reverse start order, each after the one before has exited."""
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
        """Kill all of them."""
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()


async def until_ready(settings: Settings) -> None:
    """Return when Envoy serves REST and gRPC: /readyz answers 200 and gRPC's health check SERVING."""
    # Imported late, so that the processes start before.
    import grpc  # noqa: PLC0415
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: PLC0415

    envoy = f"{settings.host}:{settings.envoy_port}"

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://{envoy}/readyz", timeout=2), grpc.insecure_channel(envoy) as channel:
                health: Any = health_pb2_grpc.HealthStub(channel)  # it ships no types
                answer = health.Check(health_pb2.HealthCheckRequest(), timeout=2)
                return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
        except (OSError, grpc.RpcError):  # urllib's errors are OSErrors
            return False

    while not await asyncio.to_thread(ready):  # noqa: ASYNC110 another process becomes ready, which sends no event
        await asyncio.sleep(0.1)


def greeting(settings: Settings) -> str:
    """The addresses, and a first request to try."""
    base, name = f"http://{settings.host}:{settings.envoy_port}", next(iter(settings.model), "sluice-demo")
    body = json.dumps({"model": name, "stream": True, "messages": [{"role": "user", "content": "Hello! Who are you?"}]})
    return f"""
sluice is ready.
  Envoy           {base}   send requests here: REST, SSE, gRPC, gRPC-web
  API reference   {base}/docs
  gateway         http://{settings.host}:{settings.gateway_port}   REST, SSE; metrics at /metrics
  service         {settings.host}:{settings.service_port}   gRPC; metrics at http://{settings.host}:{settings.service_metrics_port}/metrics
  Envoy admin     http://127.0.0.1:{settings.envoy_admin_port}

Try:
  curl -N {base}/v1/chat/completions -H 'content-type: application/json' -d '{body}'

Ctrl-C stops everything.
"""


async def run(settings: Settings) -> None:
    """Start all processes, serve until a signal or until one of them exits, then stop all."""
    check(settings)
    loop, asked_to_stop, children = asyncio.get_running_loop(), asyncio.Event(), Children()

    def on_signal() -> None:
        if asked_to_stop.is_set():
            children.kill()  # the second Ctrl-C doesn't wait
        asked_to_stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)

    async def unless_stopped(work: Awaitable[object]) -> bool:
        """Whether `work` is done; False if a signal came first. Raises RunError if a process exited."""
        done = asyncio.ensure_future(work)
        stopped, exited = asyncio.create_task(asked_to_stop.wait()), asyncio.create_task(children.first_exit())
        try:
            await asyncio.wait({done, stopped, exited}, return_when=asyncio.FIRST_COMPLETED)
            if not stopped.done() and exited.done():
                name, code = exited.result()
                raise RunError(f"{name} exited with code {code}; its log is above")
            return not stopped.done() and done.done()
        finally:
            for task in (done, stopped, exited):
                task.cancel()

    with tempfile.NamedTemporaryFile("w", prefix="sluice-envoy-", suffix=".yaml") as envoy_yaml:
        yaml.safe_dump(envoy_config(settings.addresses()), envoy_yaml)
        envoy_yaml.flush()
        try:
            for name, command in commands(settings, Path(envoy_yaml.name)).items():
                await children.start(name, command)
            try:
                ready = await asyncio.wait_for(unless_stopped(until_ready(settings)), READY_TIMEOUT_S)
            except TimeoutError as error:
                raise RunError(f"not ready after {READY_TIMEOUT_S} s; the logs are above") from error
            if ready:
                print(greeting(settings), flush=True)
                await unless_stopped(asyncio.Event().wait())
        finally:
            await children.stop()


def main() -> int:
    """Returns the exit code: 0 after Ctrl-C, 1 if the run failed, 2 for an invalid setting."""
    try:
        settings = Settings()
    except ValidationError as error:
        for problem in error.errors():
            print(f"run: {'.'.join(map(str, problem['loc']))}: {problem['msg']}", file=sys.stderr)
        return 2
    try:
        asyncio.run(run(settings))
    except (RunError, AddressError) as error:
        print(f"run: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
