"""Run the whole product on one machine: service, gateway and Envoy, until Ctrl-C.

The runner starts the three processes, waits until Envoy serves, prints the addresses, and at the end stops the
processes in reverse order: Envoy, gateway, service, each when its running requests have ended. SIGTERM does the same
after a delay for load balancers; a second signal kills. A port in use, a missing model folder or a process that exits
before the run is ready ends the run with a one-line error and a non-zero exit code. A process that exits later is
restarted, up to four times in ten minutes. Every setting is a flag or an environment variable, `SLUICE_` and the
flag's name.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import yaml

from process.errors import ConfigError
from process.lifetime.scheduling import use_batch_policy
from process.logs.lines import Lines
from process.settings.process_settings import read_settings
from runner.processes.children import Children, DiedTooOften
from runner.processes.json_log import json_line
from runner.processes.readable import ReadableLog
from runner.proxy.admin import EnvoyAdmin
from runner.proxy.envoy_config import AddressError, envoy_config
from runner.settings import ROOT, Settings
from runner.startup.checks import RunError, check, make_certificates
from runner.startup.commands import commands
from runner.startup.startup_timeout import StartupTimeout
from runner.state import StateError, claimed, make_operator_token

READY_TIMEOUT_S = 300  # without progress; loading a large model from a slow disk takes long
_DEATHS: Mapping[int, str] = {  # by the signal that ended a process
    signal.SIGKILL: "killed, as the kernel does if memory is short; `sluice check` shows a model's need",
    signal.SIGABRT: "aborted, often after a failed allocation; `sluice check` shows a model's need of memory",
}
STOP_MARGIN_S = 40.0  # time of a process to end by itself after its drain timeout


def write_envoy_config(settings: Settings, folder: Path) -> Path:
    """Write Envoy's configuration, and the files that it refers to, to the run's folder."""
    path = folder / "envoy.yaml"
    path.write_text(yaml.safe_dump(envoy_config(settings.addresses(folder))))
    return path


class StopSignal:
    """Handles SIGINT and SIGTERM: the first signal, in `number`, requests a stop; a second one kills all processes."""

    def __init__(self, children: Children, log_line: Callable[[str], None]) -> None:
        self.number: signal.Signals | None = None
        self._requested = asyncio.Event()
        self._children = children
        self._log_line = log_line
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        """Request the stop; a second signal kills the processes."""
        if self.number is None:
            self._log_line("stopping when the running requests have ended; a second signal kills")
            self.number = number
            self._requested.set()
        else:
            self._children.kill()

    async def run_until_stop(self, *works: Coroutine[Any, Any, object]) -> bool:
        """Run `works` until one is done or a signal arrives. Return True if the first of them is done.

        An exception of any of them is raised.
        """
        tasks = [asyncio.create_task(work) for work in works]
        requested = asyncio.create_task(self._requested.wait())
        try:
            done, _ = await asyncio.wait({requested, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            if self.number is not None:
                return False
            for task in done:
                task.result()
            return tasks[0].done()
        finally:
            for task in (requested, *tasks):
                task.cancel()


async def run(settings: Settings) -> None:
    """Start all processes, serve until a signal or until a process dies too often, then stop all."""
    check(settings)
    with claimed(settings.state()):
        await _run(settings)


async def _run(settings: Settings) -> None:
    make_certificates(settings)
    operator_token = make_operator_token(settings.state())
    lines = Lines(sys.stdout.fileno(), lambda number: own_line(settings, f"{number} lines were dropped"))
    readable = ReadableLog(is_coloured=sys.stdout.isatty())

    def log_own(text: str) -> None:
        lines.write(own_line(settings, text))

    startup_timeout = StartupTimeout(READY_TIMEOUT_S)
    log_format = settings.log_format
    if log_format == "auto" and sys.stdout.isatty():
        log_format = "text"

    def show(name: str, text: str) -> None:
        startup_timeout.observe(name, text)
        if log_format == "text":
            shown = readable.line(name, text)
        else:
            shown = json_line(name, text) if log_format == "json" else f"{name:7} | {text}"
        if shown is not None:
            lines.write(shown)

    children = Children(ROOT, log_own, show)
    stop = StopSignal(children, log_own)

    async def exit_of_any() -> None:
        name, code, last_line = await children.first_exit()
        raise RunError(f"{name} exited with code {code}{exit_reason(code)}: {last_line or 'its log is empty'}")

    async def startup_timed_out() -> None:
        await startup_timeout.end()
        raise RunError(f"not ready, and no progress for {READY_TIMEOUT_S} s; see the logs above")

    with tempfile.TemporaryDirectory(prefix="sluice-envoy-") as folder:
        envoy_yaml = write_envoy_config(settings, Path(folder))
        try:
            for name, command in commands(settings, envoy_yaml, operator_token).items():
                children.start(name, command)
            # Only now, so that the processes load while this one does.
            from runner.startup.greeting import greeting  # noqa: PLC0415
            from runner.startup.readiness import ServingAddresses, list_models, wait_until_ready  # noqa: PLC0415

            serving = ServingAddresses.from_settings(settings, EnvoyAdmin(settings.admin_address(Path(folder))))
            if await stop.run_until_stop(wait_until_ready(serving), exit_of_any(), startup_timed_out()):
                text = greeting(settings, await asyncio.to_thread(list_models, serving))
                lines.write(json_line("run", text.strip()) if log_format == "json" else text)
                readable.has_greeted = True
                await stop.run_until_stop(children.supervise())
        finally:
            # After Envoy has ended, gateway and service get no new requests and need no delay for load balancers.
            number = stop.number or signal.SIGINT
            drain_s = settings.drain_timeout_s + (settings.drain_time_s if number is signal.SIGTERM else 0)
            await children.stop((number, signal.SIGINT), drain_s + STOP_MARGIN_S, drain_s)


def exit_reason(code: int) -> str:
    """Return a likely reason for an exit code in brackets; empty if there is none."""
    text = _DEATHS.get(-code if code < 0 else code - 128, "")
    return f" ({text})" if text else ""


def own_line(settings: Settings, text: str) -> str:
    """Return a line of the runner's own log."""
    return json_line("run", text) if settings.log_format == "json" else f"run: {text}"


def main() -> int:
    """Return the exit code: 0 after Ctrl-C, 1 if the run failed, 2 for invalid settings."""
    try:
        settings = read_settings(Settings, sys.argv[1:])
    except ConfigError as error:
        for problem in error.problems:
            print_error(problem)
        return 2
    use_batch_policy()  # service, gateway and Envoy inherit it
    try:
        asyncio.run(run(settings))
    except (RunError, StateError, AddressError, DiedTooOften) as error:
        for line in str(error).splitlines():
            Lines(sys.stderr.fileno(), str).write(own_line(settings, line))
        return 1
    return 0


def print_error(text: str) -> None:
    """Write one line to standard error, if it is open."""
    Lines(sys.stderr.fileno(), str).write(f"run: {text}")
