"""The part of an engine's client that generators and embedders share: life cycle, open requests and statistics."""

from __future__ import annotations

import asyncio
import time
from collections import abc
from itertools import count
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from service.engine.client.crash_quarantine import CrashQuarantine
from service.engine.client.pending_call import PendingCall
from service.engine.interface.messages import Abort, Check, Command, Output, Report
from service.engine.interface.port import StepObserver
from service.engine.interface.retry import retry_after_s
from service.engine.link.link import Link
from service.generation.errors import (
    CannotSleep,
    DeadlineExceeded,
    EngineAsleep,
    EngineClosed,
    EngineError,
    EngineFailed,
    EngineRestarting,
)
from service.generation.stats import EngineStats

_ASLEEP = "the model is asleep until it is woken"
_ASLEEP_RETRY_S = 1.0
_COUNTERS = (
    "busy_s",
    "num_steps",
    "num_preemptions",
    "num_computed_tokens",
    "num_generated_tokens",
    "num_draft_tokens",
    "num_accepted_draft_tokens",
    "num_prefix_query_tokens",
    "num_prefix_hit_tokens",
    "num_replays",
)


class Opened(Protocol):
    """A request or call that the core knows by a serial, until its caller has left."""

    @property
    def is_complete(self) -> bool:
        """Whether the core has nothing more to do for it."""

    def description(self) -> str | None:
        """Return its description for the `CrashQuarantine`; None if it can't cause a crash any more."""

    def start(self) -> None:
        """Record that the core has started to compute it."""

    def put(self, output: Output) -> None:
        """Take one of its outputs."""

    def end(self, error: EngineError) -> None:
        """End it with an error. After its end this does nothing."""


OpenedT = TypeVar("OpenedT", bound=Opened)


class EngineClient(Generic[OpenedT]):
    """The life cycle and the open requests of an engine, in a thread or in a process.

    `async with client` or `client.start()` … `await client.close()`. Use it on the event loop that started it.
    """

    def __init__(
        self,
        link: Link,
        *,
        max_model_len: int,
        observer: StepObserver | None = None,
        clock: abc.Callable[[], float] = time.monotonic,
    ) -> None:
        self.max_model_len = max_model_len
        self._link = link
        self._observer = observer
        self._clock = clock
        self._serials = count()
        self._opened: dict[int, OpenedT | PendingCall] = {}  # oldest first
        self._left = asyncio.Event()  # set whenever a caller leaves
        self._is_closed = False
        self._back_at: float | None = None  # by the clock, while the core restarts
        self._stats = EngineStats()
        self._stats_before: EngineStats | None = None  # counters of cores that have died
        self._heartbeat = time.monotonic()
        self._quarantine = CrashQuarantine()
        self.is_asleep = False

    @property
    def pid(self) -> int | None:
        """The process of the core; None if it is this process, or not running."""
        return self._link.pid

    def kill(self) -> None:
        """Kill the process of a core that has stalled, if it has one; it is restarted."""
        self._link.kill()

    def start(self) -> None:
        """Start to serve, on the running loop."""
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._heartbeat = time.monotonic()
        self._link.start(self)

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def is_restarting(self) -> bool:
        """Whether the core has died and is being restarted."""
        return self._back_at is not None

    @property
    def heartbeat_age_s(self) -> float:
        """Seconds since the engine last began a step or, when idle, looked for work, which it does every second.

        Zero while it is asleep or restarting.
        """
        return 0.0 if self.is_restarting or self.is_asleep else time.monotonic() - self._heartbeat

    @property
    def num_open(self) -> int:
        """Requests whose callers have not left."""
        return len(self._opened)

    def stats(self) -> EngineStats:
        """Return the state after the last step, or after later arrivals and departures."""
        return self._stats

    async def check(self) -> None:
        """Raise EngineError if the engine has lost a cache block, or has one with two owners."""
        self._reject_if_not_running()
        await self._ask(Check)

    async def drain(self, timeout_s: float) -> None:
        """Reject new requests, wait until all callers have left, then end open requests with EngineClosed."""
        self._is_closed = True
        error = EngineClosed("the engine was stopped before the request was complete")
        await self._end_after(timeout_s, error, lambda _: True)

    async def close(self) -> None:
        """End all requests and the engine. Return when the step in progress, if any, is done."""
        await self.drain(0)
        await self._link.stop()

    async def sleep(self, timeout_s: float) -> None:
        """Release weights and cache. New requests get EngineAsleep, and so do open ones after the timeout.

        Raises CannotSleep.
        """
        if not self._link.can_relaunch:
            raise CannotSleep("the model can't sleep: its engine runs in the service's process (engine.worker)")
        self.is_asleep = True
        await self._end_after(timeout_s, EngineAsleep(_ASLEEP, _ASLEEP_RETRY_S), lambda _: True)
        await self._link.stop()
        self._back_at = None
        self._forget_state()

    async def wake(self) -> None:
        """Load a model that is asleep. Raises ModelLoadError, and then it stays asleep."""
        await self._link.relaunch()
        self.is_asleep = False
        self.on_restart()

    def on_report(self, report: Report) -> None:
        """Deliver the outputs and errors of a report to the requests that are still open."""
        if report.heartbeat is not None:
            self._heartbeat = report.heartbeat
        for stats in report.stats:
            self._take_stats(stats)
        for serial in report.started:
            if opened := self._opened.get(serial):
                opened.start()
        for serial, output in report.outputs:
            if opened := self._opened.get(serial):
                opened.put(output)
        for serial, error in report.errors:
            if opened := self._opened.get(serial):
                opened.end(error)

    def on_death(self, reason: BaseException, restart_in_s: float | None) -> None:
        """End all requests with EngineFailed."""
        self._back_at = None if restart_in_s is None else self._clock() + restart_in_s
        self._forget_state()
        descriptions = {each.description() for each in self._opened.values()}
        for description in filter(None, descriptions):
            self._quarantine.record_death(description)
        for opened in self._opened.values():
            error = EngineFailed("the engine has failed")
            error.__cause__ = reason
            opened.end(error)
        if restart_in_s is None:
            self.failed.set_result(reason)

    def _forget_state(self) -> None:
        """Reset the stats, except for counters."""
        self._stats_before = self._stats
        self._stats = _add(EngineStats(), self._stats)

    def on_restart(self) -> None:
        """Serve new requests again, after a restart of the core."""
        self._back_at = None
        self._heartbeat = time.monotonic()

    def _take_stats(self, stats: EngineStats) -> None:
        if self._stats_before is not None:
            stats = _add(stats, self._stats_before)
        has_stepped = stats.num_steps > self._stats.num_steps
        self._stats = stats
        if has_stepped and self._observer:
            self._observer.on_step(stats)

    def _reject_if_unavailable(self, *deadlines: float | None) -> None:
        """Raise the error that prevents any request with these deadlines, if there is one."""
        if self._is_closed and not self.failed.done():
            raise EngineClosed("the engine takes no new requests")
        self._reject_if_not_running()
        now = self._clock()
        if any(deadline is not None and deadline <= now for deadline in deadlines):
            raise DeadlineExceeded("the deadline passed before the request began")

    def _reject_if_not_running(self) -> None:
        if self.failed.done():
            raise EngineFailed("the engine has failed")
        if self.is_asleep:
            raise EngineAsleep(_ASLEEP, _ASLEEP_RETRY_S)
        if self._back_at is not None:
            message = "the engine of this model has failed and is being restarted"
            raise EngineRestarting(message, retry_after_s(self._back_at - self._clock()))

    def _requests(self) -> list[OpenedT]:
        """Return the open requests, oldest first."""
        return [each for each in self._opened.values() if not isinstance(each, PendingCall)]

    def _open(self, opened: OpenedT | PendingCall, command: abc.Callable[[int], Command]) -> int:
        """Send the command that `command` makes of a new serial, and register `opened` under it."""
        serial = next(self._serials)
        self._link.send(command(serial))
        self._opened[serial] = opened
        return serial

    async def _end_after(
        self, timeout_s: float, error: EngineError, fits: abc.Callable[[OpenedT | PendingCall], bool]
    ) -> None:
        """Wait until all requests that fit have left; after the timeout end those still open with `error`."""
        try:
            async with asyncio.timeout(timeout_s):
                while any(map(fits, self._opened.values())):
                    self._left.clear()
                    await self._left.wait()
        except TimeoutError:
            for serial, opened in self._opened.items():
                if fits(opened):
                    self._link.send(Abort(serial))
                    opened.end(error)

    def _ask(self, command: abc.Callable[[int], Command]) -> abc.Awaitable[Output]:
        """Send the command that `command` makes of a new serial immediately, and return its future output."""
        pending_call = PendingCall()
        return self._result_of(self._open(pending_call, command), pending_call)

    async def _result_of(self, serial: int, pending_call: PendingCall) -> Output:
        try:
            return await pending_call.done
        finally:
            self._leave(serial)

    def _leave(self, *serials: int) -> None:
        """Forget requests or calls, and abort those that are not complete."""
        for serial in serials:
            if not self._opened.pop(serial).is_complete:
                self._link.send(Abort(serial))
        self._left.set()


def _add(stats: EngineStats, before: EngineStats) -> EngineStats:
    """Return `stats` with the counters of `before` added."""
    return stats._replace(**{name: getattr(stats, name) + getattr(before, name) for name in _COUNTERS})
