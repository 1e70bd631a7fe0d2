"""Runs the whole product on one machine: service, gateway and Envoy, until Ctrl-C.

Starts the three processes, waits until Envoy serves, prints the addresses, and stops the processes in reverse order:
Envoy, gateway, service, each when its running requests have ended. SIGTERM does the same, with time for balancers to
look elsewhere; a second signal kills. A port in use, a missing model folder or a process that exits before all is ready
ends the run with a one-line error and a non-zero exit code; a process that exits later is started again, up to four
times in ten minutes. Every setting is a flag or an environment variable, `SLUICE_` and the flag's name.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_settings import SettingsError

from process.lifetime.scheduling import let_others_finish
from process.logs.lines import Lines
from runner.processes.children import Children, DiedTooOften
from runner.processes.readable import Readable
from runner.proxy.envoy_config import AddressError, envoy_config
from runner.settings import ROOT, RunError, Settings, check, commands
from runner.startup.startup_timeout import StartupTimeout

READY_TIMEOUT_S = 300  # without progress: a large model is made ready from a slow disk
STOP_TIMEOUT_S = 60  # longer than any process's own draining


def write_envoy_config(settings: Settings, folder: Path) -> Path:
    """Envoy's file in the run's folder, and what it refers to."""
    path = folder / "envoy.yaml"
    path.write_text(yaml.safe_dump(envoy_config(settings.addresses(folder))))
    return path


class StopSignal:
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
    readable = Readable()

    startup_timeout = StartupTimeout(READY_TIMEOUT_S)
    is_terminal = sys.stdout.isatty()

    def show(name: str, text: str) -> None:
        startup_timeout.hear(name, text)
        if (shown := readable.line(name, text) if is_terminal else f"{name:7} | {text}") is not None:
            lines.write(shown)

    children = Children(ROOT, lines.write, show)
    stop = StopSignal(children, lines.write)

    async def exit_of_any() -> None:
        name, code = await children.first_exit()
        raise RunError(f"{name} exited with code {code}; its log is above")

    async def startup_timed_out() -> None:
        await startup_timeout.end()
        raise RunError(f"not ready, and no progress for {READY_TIMEOUT_S} s; the logs are above")

    with tempfile.TemporaryDirectory(prefix="sluice-envoy-") as folder:
        envoy_yaml = write_envoy_config(settings, Path(folder))
        try:
            for name, command in commands(settings, envoy_yaml).items():
                children.start(name, command)
            # Only now, so that the processes load while this one does.
            from runner.startup.greeting import greeting  # noqa: PLC0415
            from runner.startup.readiness import FrontAddress, models_of, until_ready  # noqa: PLC0415

            front = FrontAddress.of(settings)
            if await stop.unless(until_ready(front), exit_of_any(), startup_timed_out()):
                lines.write(greeting(settings, await asyncio.to_thread(models_of, front)))
                readable.has_greeted = True
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
            complain(": ".join(filter(None, (".".join(map(str, problem["loc"])), problem["msg"]))))
        return 2
    except SettingsError as error:
        complain(str(error))
        return 2
    let_others_finish()  # service, gateway and Envoy inherit it
    try:
        asyncio.run(run(settings))
    except (RunError, AddressError, DiedTooOften) as error:
        complain(str(error))
        return 1
    return 0


def complain(text: str) -> None:
    """One line on standard error, if anybody reads it."""
    Lines(sys.stderr.fileno(), str).write(f"run: {text}")
