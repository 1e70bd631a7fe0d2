"""Runs the whole product on one machine: service, gateway and Envoy, until Ctrl-C.

Starts the three processes, waits until Envoy serves, prints the addresses, and stops the processes in reverse order:
Envoy, gateway, service, each when its running requests have ended. SIGTERM does the same, with time for balancers to
look elsewhere; a second signal kills. A port in use, a missing model folder or a process that exits before all is ready
ends the run with a one-line error and a non-zero exit code; a process that exits later is started again, up to four
times in ten minutes. Every setting is a flag or an environment variable, `SLUICE_` and the flag's name.
"""

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C before anything has started needs no traceback

import asyncio
import json
import os
import socket
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Coroutine
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # to be run by its path, too

import yaml
from pydantic import AliasChoices, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from process.lines import Lines
from tools.children import Children, DiedTooOften
from tools.development_tls import DevelopmentTls
from tools.envoy_config import AddressError, Addresses, envoy_config
from tools.envoy_tls import EnvoyTls

READY_TIMEOUT_S = 300  # a large model loads from a slow disk
STOP_TIMEOUT_S = 60  # longer than any process's own draining


class RunError(Exception):
    """The run can't go on; the message is one line for the user."""


class Settings(BaseSettings):
    """Run service, gateway and Envoy on one machine, until Ctrl-C."""

    model_config = SettingsConfigDict(
        env_prefix="SLUICE_",
        cli_parse_args=True,
        cli_prog_name="run",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        extra="ignore",
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
    keys_file: Path | None = Field(
        None, description="file of the keys that callers need, as `sluice keys` writes it; without it, nobody needs one"
    )
    allow_anonymous: bool = Field(
        False, description="without a keys_file: listen on a host that others can reach, and let everybody in"
    )
    drain_time_s: int = Field(
        3, ge=1, description="at SIGTERM: time to accept requests while health says no; at Ctrl-C it is left out"
    )
    drain_timeout_s: float = Field(
        30, ge=0, allow_inf_nan=False, description="at a stop: time for running requests to end, in each process"
    )
    otlp_endpoint: str | None = Field(
        None,
        validation_alias=AliasChoices("otlp_endpoint", "SLUICE_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        description="host:port or URL of an OTLP gRPC collector; without it, nothing is exported",
    )

    tls: Literal["off", "server", "mutual"] = Field(
        "off", description="TLS of all connections, with certificates for development; mutual: callers need one, too"
    )
    certs_folder: Path = Field(
        ROOT / ".cache" / "certs", description="folder of these certificates, made anew at a start"
    )

    def development_tls(self) -> DevelopmentTls | None:
        """The run's certificates; None without TLS."""
        return None if self.tls == "off" else DevelopmentTls(self.certs_folder.resolve(), self.tls == "mutual")

    def addresses(self, secrets: Path) -> Addresses:
        """What Envoy's configuration is made of. `secrets` is a folder of this run."""
        given = {field.name: getattr(self, field.name) for field in fields(Addresses) if field.name != "tls"}
        if (tls := self.development_tls()) is None:
            return Addresses(**given)
        return Addresses(**given, tls=EnvoyTls(certificates=tls.folder, secrets=secrets, mutual=tls.mutual))

    def ports(self) -> dict[str, int]:
        """Every port with the name of its setting."""
        return {name: value for name, value in self.model_dump().items() if name.endswith("_port")}


def check(settings: Settings) -> None:
    """Check ports and model folders before anything starts, and make the folder of the endpoints' file."""
    used: dict[int, str] = {}
    for name, port in settings.ports().items():
        if used.setdefault(port, name) != name:
            raise RunError(f"{used[port]} and {name} are both {port}; each needs a port of its own")
    for name, port in settings.ports().items():
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
    if (tls := settings.development_tls()) is not None:
        try:
            tls.make(settings.host)
        except (OSError, ValueError) as error:
            raise RunError(f"certs_folder {tls.folder}: {getattr(error, 'strerror', None) or error}") from error


def commands(settings: Settings, envoy_yaml: Path) -> dict[str, list[str]]:
    """Each process's command line, in start order."""
    service = [sys.executable, "-m", "service", "--host", settings.host, "--port", str(settings.service_port)]
    service += ["--metrics-port", str(settings.service_metrics_port)]
    service += ["--endpoints-file", str(settings.endpoints_file.resolve())]
    for name, model in settings.model.items():
        service += ["--model", f"{name}={model}"]
    gateway = [sys.executable, "-m", "gateway", "--host", settings.host, "--port", str(settings.gateway_port)]
    gateway += ["--target", f"{settings.host}:{settings.service_port}"]
    service += ["--drain-timeout-s", str(settings.drain_timeout_s)]
    gateway += ["--stop-timeout-s", str(settings.drain_timeout_s)]
    if settings.keys_file is not None:
        service += ["--auth.keys-file", str(settings.keys_file.resolve())]
    if settings.allow_anonymous:
        service += ["--auth.allow-anonymous", "true"]
        gateway += ["--auth.allow-anonymous", "true"]
    if settings.otlp_endpoint is not None:
        service += ["--otlp-endpoint", settings.otlp_endpoint]
        gateway += ["--otlp-endpoint", settings.otlp_endpoint]
    if (tls := settings.development_tls()) is not None:
        service += tls.service_flags()
        gateway += tls.gateway_flags()
    envoy = [sys.executable, str(ROOT / "tools" / "front_door.py"), f"127.0.0.1:{settings.envoy_admin_port}"]
    envoy += ["--drain-time-s", str(settings.drain_time_s), "--drain-timeout-s", str(settings.drain_timeout_s), "--"]
    envoy += [str(Path(sys.executable).with_name("envoy")), "-c", str(envoy_yaml)]
    envoy += ["--concurrency", "1", "--disable-hot-restart", "-l", "warning"]
    envoy += ["--file-flush-interval-msec", "500"]  # of its access log
    return {"service": service, "gateway": gateway, "envoy": envoy}


def write_envoy_config(settings: Settings, folder: Path) -> Path:
    """Envoy's file in the run's folder, and what it refers to."""
    path = folder / "envoy.yaml"
    path.write_text(yaml.safe_dump(envoy_config(settings.addresses(folder))))
    return path


async def until_ready(settings: Settings) -> None:
    """Return when Envoy serves REST and gRPC: /readyz answers 200 and gRPC's health check SERVING."""
    # Imported late, so that the processes start before.
    import grpc  # noqa: PLC0415
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: PLC0415

    envoy, tls = f"{settings.host}:{settings.envoy_port}", settings.development_tls()
    scheme, context = ("http", None) if tls is None else ("https", tls.caller_context())

    def connect() -> grpc.Channel:
        if tls is None:
            return grpc.insecure_channel(envoy)
        return grpc.secure_channel(envoy, grpc.ssl_channel_credentials(*tls.caller_pems()))

    def ready() -> bool:
        url = f"{scheme}://{envoy}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=2, context=context), connect() as channel:  # noqa: S310 ours
                health: Any = health_pb2_grpc.HealthStub(channel)  # it ships no types
                answer = health.Check(health_pb2.HealthCheckRequest(), timeout=2)
                return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
        except (OSError, grpc.RpcError):  # urllib's errors are OSErrors
            return False

    while not await asyncio.to_thread(ready):  # noqa: ASYNC110 another process becomes ready, which sends no event
        await asyncio.sleep(0.1)


def greeting(settings: Settings) -> str:
    """The addresses, and a first request to try."""
    tls, name = settings.development_tls(), next(iter(settings.model), "sluice-demo")
    scheme, flags = ("http", "") if tls is None else ("https", tls.curl_flags())
    base = f"{scheme}://{settings.host}:{settings.envoy_port}"
    key = "" if settings.keys_file is None else " -H 'authorization: Bearer YOUR-KEY'"
    body = json.dumps({"model": name, "stream": True, "messages": [{"role": "user", "content": "Hello! Who are you?"}]})
    return f"""
sluice is ready.
  Envoy           {base}   send requests here: REST, SSE, gRPC, gRPC-web
  API reference   {base}/docs
  gateway         {scheme}://{settings.host}:{settings.gateway_port}   REST, SSE; metrics at /metrics
  service         {settings.host}:{settings.service_port}   gRPC; metrics at http://{settings.host}:{settings.service_metrics_port}/metrics
  Envoy admin     http://127.0.0.1:{settings.envoy_admin_port}

Try:
  curl -N{flags} {base}/v1/chat/completions -H 'content-type: application/json'{key} -d '{body}'

Ctrl-C stops everything.
"""


class Stop:
    """The wish to stop: the first signal, in `number`; at the second all is killed."""

    def __init__(self, children: Children, say: Callable[[str], None]) -> None:
        self.number: signal.Signals | None = None
        self._asked = asyncio.Event()
        self._children = children
        self._say = say
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        if self.number is None:
            self._say("run: stopping when the running requests have ended; a second signal kills")
            self.number = number
            self._asked.set()
        else:
            self._children.kill()

    async def unless(self, *works: Coroutine[Any, Any, object]) -> bool:
        """Whether the first of `works` is done; False if a signal came before. Raises what any of them raises."""
        tasks = [asyncio.create_task(work) for work in works]
        asked = asyncio.create_task(self._asked.wait())
        try:
            done, _ = await asyncio.wait({asked, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            if self.number is not None:
                return False
            for task in done:
                task.result()
            return tasks[0].done()
        finally:
            for task in (asked, *tasks):
                task.cancel()


async def run(settings: Settings) -> None:
    """Start all processes, serve until a signal or until one of them dies too often, then stop all."""
    check(settings)
    lines = Lines(sys.stdout.fileno(), "run: {} lines were left out".format)
    children = Children(ROOT, lines.write)
    stop = Stop(children, lines.write)

    async def exit_of_any() -> None:
        name, code = await children.first_exit()
        raise RunError(f"{name} exited with code {code}; its log is above")

    with tempfile.TemporaryDirectory(prefix="sluice-envoy-") as folder:
        envoy_yaml = write_envoy_config(settings, Path(folder))
        try:
            for name, command in commands(settings, envoy_yaml).items():
                children.start(name, command)
            try:
                ready = await asyncio.wait_for(stop.unless(until_ready(settings), exit_of_any()), READY_TIMEOUT_S)
            except TimeoutError as error:
                raise RunError(f"not ready after {READY_TIMEOUT_S} s; the logs are above") from error
            if ready:
                lines.write(greeting(settings))
                await stop.unless(children.keep())
        finally:
            # Who is behind Envoy gets no new requests once that has ended, and has nobody to tell of its leaving.
            await children.stop((stop.number or signal.SIGINT, signal.SIGINT), STOP_TIMEOUT_S)


def main() -> int:
    """Returns the exit code: 0 after Ctrl-C, 1 if the run failed, 2 for an invalid setting."""
    try:
        settings = Settings()
    except ValidationError as error:
        for problem in error.errors():
            complain(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}")
        return 2
    try:
        asyncio.run(run(settings))
    except (RunError, AddressError, DiedTooOften) as error:
        complain(str(error))
        return 1
    return 0


def complain(text: str) -> None:
    """One line on standard error, if anybody reads it."""
    Lines(sys.stderr.fileno(), str).write(f"run: {text}")


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
