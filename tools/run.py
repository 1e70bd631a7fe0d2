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
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # to be run by its path, too

import yaml
from pydantic import ValidationError

from process.lines import Lines
from tools.children import Children, DiedTooOften
from tools.envoy_config import AddressError, envoy_config
from tools.run_settings import RunError, Settings, check, commands

READY_TIMEOUT_S = 300  # a large model loads from a slow disk
STOP_TIMEOUT_S = 60  # longer than any process's own draining


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
