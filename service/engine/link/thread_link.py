"""An engine's core on a thread of this process.

Mail goes by a queue, each report comes back by one `call_soon_threadsafe`, and nothing is locked.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable

from service.engine.link.link import Receiver
from service.engine.link.loop import BEAT_S, CommandQueue, Core, run
from service.engine.messages import Command, Report, StopCore

_log = logging.getLogger(__name__)


class ThreadLink:
    """Runs a core from `start()` to `await stop()`. A core that dies isn't started again."""

    def __init__(self, core: Core, *, name: str = "engine", beat_s: float = BEAT_S) -> None:
        """`name` is the thread's. `beat_s` is how often an idle engine reports."""
        self._core = core
        self._beat_s = beat_s
        self._command_queue: CommandQueue = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def pid(self) -> None:
        """None: it is this process."""
        return

    def kill(self) -> None:
        """Do nothing: a thread can't be ended."""

    @property
    def can_launch_again(self) -> bool:
        """False: the weights are this process's."""
        return False

    async def launch_again(self) -> None:
        """Raises RuntimeError: a thread is not launched again."""
        raise RuntimeError("an engine on a thread can't be launched again")

    def start(self, receiver: Receiver) -> None:
        """Start the thread, and tell `receiver` on the running loop."""
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self._thread.start()

    def send(self, command: Command) -> None:
        """Returns at once."""
        self._command_queue.put(command)

    async def stop(self) -> None:
        """End the thread; returns when the step in progress, if any, is done. Does nothing before the start."""
        if self._thread.ident is not None:
            self._command_queue.put(StopCore())
            await self._stopped

    def _run(self) -> None:
        try:
            run(self._core, self._command_queue, self._emit, beat_s=self._beat_s)
        except BaseException as error:  # noqa: BLE001 - whatever it is, such as a panic in Rust, callers must be told
            _log.exception("the engine has failed")
            self._call(self._receiver.on_death, error, None)
        finally:
            self._call(self._stopped.set_result, None)

    def _emit(self, report: Report) -> None:
        self._call(self._receiver.on_report, report)

    def _call(self, callback: Callable[..., None], *args: object) -> None:
        """Have the loop call back. If it was closed with the thread still running, nobody listens any more."""
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            self._command_queue.put(StopCore())
