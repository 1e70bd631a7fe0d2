"""A thread that computes step by step, and the two crossings between it and an event loop.

Owns the thread, its mailbox and its heartbeat. Calls go to the thread by a queue, each step's report comes back by
one `call_soon_threadsafe`, and nothing is locked; beside these the thread only publishes its latest stats and
heartbeat. All methods belong to the loop that started it. Knows neither what is computed nor for whom.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Generic, Protocol, TypeVar

from service.generation.stats import EngineStats

_HEARTBEAT_S = 1.0

_log = logging.getLogger(__name__)

_Report = TypeVar("_Report")
_Argument = TypeVar("_Argument")
_Report_co = TypeVar("_Report_co", covariant=True)


class Core(Protocol[_Report_co]):
    """What the thread runs. Only the thread calls it."""

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""

    def step(self) -> _Report_co:
        """Compute one step. Whatever it raises ends the thread."""

    def stats(self) -> EngineStats:
        """A snapshot of the state after the last step."""


class EngineThread(Generic[_Report]):
    """Runs a core from `start()` to `await stop()`. `failed` is done, with the reason, when it died by itself."""

    def __init__(
        self,
        core: Core[_Report],
        *,
        name: str,
        on_report: Callable[[_Report, EngineStats], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """`on_report` and `on_failure` are called on the loop; the latter before `failed` is done."""
        self._core = core
        self._on_report = on_report
        self._on_failure = on_failure
        self._mailbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()  # None is the end
        self._stats = core.stats()
        self._heartbeat = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread. Call it on the loop that is to be told of reports."""
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[BaseException] = self._loop.create_future()
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self._heartbeat = time.monotonic()
        self._thread.start()

    @property
    def is_started(self) -> bool:
        return self._thread.ident is not None

    @property
    def heartbeat_age_s(self) -> float:
        """Seconds since the thread last began a step or, when idle, looked for work: about a second at most then."""
        return time.monotonic() - self._heartbeat

    def stats(self) -> EngineStats:
        """The state after the last step, or after what has come or gone since."""
        return self._stats

    def call(self, function: Callable[[_Argument], None], argument: _Argument) -> None:
        """Have the thread call `function(argument)`, one of its core's, before the next step."""
        self._mailbox.put(partial(function, argument))

    async def stop(self) -> None:
        """End the thread; returns when the step in progress, if any, is done."""
        self._mailbox.put(None)
        await self._stopped

    def _run(self) -> None:
        """The thread's life."""
        try:
            while not self._loop.is_closed() and self._receive():
                if self._core.has_work:
                    report = self._core.step()
                    self._stats = self._core.stats()
                    self._tell_loop(self._on_report, report, self._stats)
        except BaseException as error:  # noqa: BLE001 - whatever it is, such as a panic in Rust, callers must be told
            _log.exception("the engine has failed")
            self._tell_loop(self._fail, error)
        finally:
            self._tell_loop(self._stopped.set_result, None)

    def _fail(self, reason: BaseException) -> None:
        self._on_failure(reason)
        self.failed.set_result(reason)

    def _tell_loop(self, callback: Callable[..., None], *args: object) -> None:
        """Have the loop call back, unless it was closed with the thread still running: then nobody listens."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *args)

    def _receive(self) -> bool:
        """Take what is in the mailbox, waiting for it only if there is no work; False if the thread is to end."""
        while True:
            self._heartbeat = time.monotonic()
            try:
                message = self._mailbox.get(block=not self._core.has_work, timeout=_HEARTBEAT_S)
            except queue.Empty:
                return True
            if message is None:
                return False
            message()
            self._stats = self._core.stats()
