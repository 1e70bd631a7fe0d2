"""The processes of a run. They are restarted when they die, stopped in order, and killed with the runner."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from runner.processes.lifeline import die_with_parent

_MAX_LINE = 1 << 20  # bytes of a log line
_LOG_TIMEOUT_S = 5.0  # for the end of a log, which another process may still hold open


class DiedTooOften(Exception):  # noqa: N818 the name says what happened
    """A process has died too often and is not restarted; the text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """The restart policy of a process: a delay that doubles, and at most `max_deaths` deaths within `window_s`.

    The window is long compared to the load of a model.
    """

    first_delay_s: float = 0.5
    max_deaths: int = 5
    window_s: float = 600.0

    def delay_s(self, num_deaths: int) -> float:
        """Return the seconds to wait before a restart after `num_deaths` deaths."""
        return self.first_delay_s * 2.0 ** (num_deaths - 1)


Log: TypeAlias = Callable[[str, str], None]  # called with a process's name and a line of its log


class Child:
    """A process with its descendants, in a separate session, so that Ctrl-C reaches only the runner."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, log: Log) -> None:
        """Start the process."""
        self.name = name
        self._command = command
        self._folder = folder
        self._log_line = log
        self._last_line = ""
        self.start()

    def start(self) -> None:
        """Start the process, or restart it after its end."""
        self._process = subprocess.Popen(
            self._command, cwd=self._folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=die_with_parent(),  # noqa: PLW1509 there is one thread
        )  # fmt: skip
        self._exit = asyncio.ensure_future(self._until_exit(self._process))
        self._log = asyncio.ensure_future(self._copy_log(self._process))

    async def wait(self) -> int:
        """Wait for the process and return its exit code."""
        return await asyncio.shield(self._exit)

    async def stop(self, number: signal.Signals, timeout_s: float) -> None:
        """Send a signal, kill the process after `timeout_s`, and return when its log is written."""
        if not self._exit.done():
            self._process.send_signal(number)
            await asyncio.wait([self._exit], timeout=timeout_s)
            self.kill()
        await self._exit
        await self._log

    def kill(self) -> None:
        """Kill the process and its descendants."""
        if not self._exit.done():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def last_line(self) -> str:
        """Return the last line of its log, once it has exited."""
        await asyncio.wait([self._log], timeout=_LOG_TIMEOUT_S)
        return self._last_line

    async def _until_exit(self, process: subprocess.Popen[bytes]) -> int:
        """Wait for the exit, then kill remaining descendants, which may hold ports that the restart needs."""
        loop, exited = asyncio.get_running_loop(), asyncio.Event()
        handle = os.pidfd_open(process.pid)
        loop.add_reader(handle, exited.set)
        try:
            await exited.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # before it is reaped, so that its id is not reused
        return process.wait()

    async def _copy_log(self, process: subprocess.Popen[bytes]) -> None:
        """Pass each line of the process's output to the log, until the output ends."""
        assert process.stdout is not None  # noqa: S101 it was made with PIPE
        reader = asyncio.StreamReader(_MAX_LINE)
        make = partial(asyncio.StreamReaderProtocol, reader)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(make, process.stdout)
        with contextlib.closing(transport):
            while True:
                try:
                    line = await reader.readline()
                except ValueError:
                    continue  # a line above the limit is dropped; the pipe must be read, or the process would block
                if not line:
                    return
                self._last_line = line.decode(errors="replace").rstrip() or self._last_line
                self._log_line(self.name, line.decode(errors="replace").rstrip())


class Children:
    """The running processes, in start order. One event loop uses them."""

    def __init__(
        self, folder: Path, report: Callable[[str], None], log: Log | None = None, restarts: Restarts | None = None
    ) -> None:
        """`folder` is their working directory, `report` gets messages about them, and `log` gets their log lines."""
        self._folder = folder
        self._report = report
        self._log = log or (lambda name, line: report(f"{name:7} | {line}"))
        self._restarts = restarts or Restarts()
        self._children: list[Child] = []

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a process. An event loop must be running."""
        self._children.append(Child(name, command, self._folder, self._log))

    async def first_exit(self) -> tuple[str, int, str]:
        """Return (name, exit code, last line of its log) of the first one that exits."""
        waits = {asyncio.create_task(child.wait()): child for child in self._children}
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            task = next(iter(done))
            return waits[task].name, task.result(), await waits[task].last_line()
        finally:
            for task in waits:
                task.cancel()

    async def supervise(self) -> None:
        """Restart each process that exits, until the task is cancelled. Raise DiedTooOften."""
        supervisors = {asyncio.create_task(self._supervise(child)) for child in self._children}
        try:
            done, _ = await asyncio.wait(supervisors, return_when=asyncio.FIRST_COMPLETED)
            next(iter(done)).result()
        finally:
            for task in supervisors:
                task.cancel()

    async def stop(self, numbers: Sequence[signal.Signals], timeout_s: float, drain_s: float) -> None:
        """Stop the processes in reverse start order, each after the previous one has exited.

        `numbers` are the signals in this order; the last signal is used for all remaining processes. If the first
        process still runs after `drain_s` seconds, the others get SIGQUIT while it lasts, so that the errors of the
        remaining requests pass through it. A process is killed if it runs for `timeout_s` seconds after its signal.
        """
        if not self._children:
            return
        proxy, *others = reversed(self._children)
        stopping = asyncio.create_task(proxy.stop(numbers[0], timeout_s))
        has_drained, _ = await asyncio.wait([stopping], timeout=drain_s)
        for index, child in enumerate(others, 1):
            number = numbers[min(index, len(numbers) - 1)] if has_drained else signal.SIGQUIT
            await child.stop(number, timeout_s)
        await stopping

    def kill(self) -> None:
        """Kill all processes."""
        for child in self._children:
            child.kill()

    async def _supervise(self, child: Child) -> None:
        """Restart one process whenever it exits. Raise DiedTooOften."""
        restarts = self._restarts
        deaths: deque[float] = deque()
        while True:
            code = await child.wait()
            now = time.monotonic()
            deaths.append(now)
            while deaths[0] < now - restarts.window_s:
                deaths.popleft()
            if len(deaths) >= restarts.max_deaths:
                text = f"{child.name} has exited {len(deaths)} times in {now - deaths[0]:.0f} s"
                last_line = await child.last_line()
                raise DiedTooOften(f"{text}, the last time with code {code}, and is not restarted: {last_line}")
            delay_s = restarts.delay_s(len(deaths))
            self._report(f"{child.name} exited with code {code}; it will be restarted in {delay_s:g} s")
            await asyncio.sleep(delay_s)
            child.start()
