"""An engine's core on a thread of this process.

Commands are sent through a queue, each report is returned by one `call_soon_threadsafe`, and no locks are needed.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

from service.engine.interface.messages import Command, Report, StopCore
from service.engine.link.link import Receiver
from service.engine.link.loop import HEARTBEAT_INTERVAL_S, CommandQueue, Core, run

_log = logging.getLogger(__name__)


class ThreadLink:
    """Runs a core from `start()` to `await stop()`. A core that dies is not restarted."""

    def __init__(self, core: Core, *, name: str = "engine", heartbeat_interval_s: float = HEARTBEAT_INTERVAL_S) -> None:
        """`name` is the name of the thread. `heartbeat_interval_s` is how often an idle engine reports."""
        self._core = core
        self._heartbeat_interval_s = heartbeat_interval_s
        self._command_queue = CommandQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def pid(self) -> None:
        """Always None: the core runs in this process."""
        return

    def kill(self) -> None:
        """Do nothing, because a thread cannot be killed."""

    @property
    def is_suspended(self) -> bool:
        """Always False: a suspended process could not ask."""
        return False

    @property
    def can_relaunch(self) -> bool:
        """Always False: this process holds the weights."""
        return False

    async def relaunch(self) -> Any:
        """Raise RuntimeError, because a thread cannot be launched again."""
        raise RuntimeError("an engine on a thread cannot be launched again")

    def start(self, receiver: Receiver) -> None:
        """Start the thread, and report to `receiver` on the running loop."""
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self._thread.start()

    def send(self, command: Command) -> None:
        """Send a command and return immediately."""
        self._command_queue.put(command)

    async def stop(self) -> None:
        """End the thread, and return when the step in progress, if any, is done. Do nothing before the start."""
        if self._thread.ident is not None:
            self._command_queue.put(StopCore())
            await self._stopped

    def _run(self) -> None:
        try:
            run(self._core, self._command_queue, self._emit, heartbeat_interval_s=self._heartbeat_interval_s)
        except BaseException as error:  # noqa: BLE001 - any exception, such as a panic in Rust, must reach the callers
            _log.exception("the engine has failed")
            self._call(self._receiver.on_death, error, None)
        finally:
            self._call(self._stopped.set_result, None)

    def _emit(self, report: Report) -> None:
        self._call(self._receiver.on_report, report)

    def _call(self, callback: Callable[..., None], *args: object) -> None:
        """Schedule the callback on the loop. If the loop was closed while the thread still runs, end the thread."""
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            self._command_queue.put(StopCore())
