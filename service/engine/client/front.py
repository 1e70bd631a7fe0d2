"""The base of every engine's client on the event loop: its life cycle, open requests and statistics."""

from __future__ import annotations

import asyncio
import time
from collections import abc
from itertools import count
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from service.engine.client.crash_quarantine import CrashQuarantine
from service.engine.client.pending_call import PendingCall
from service.engine.link.link import Link
from service.engine.messages import Abort, Check, Command, Output, Report
from service.engine.port import StepObserver
from service.engine.retry import retry_after_s
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

_ASLEEP = "the model sleeps; it answers when it is woken"
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
    """Something that the engine's side was asked for under a serial, until its caller has left."""

    @property
    def is_complete(self) -> bool:
        """Whether the engine's side has nothing more to do for it."""

    def words(self) -> str | None:
        """What it is, in words for `CrashQuarantine`; None if it is none of theirs."""

    def start(self) -> None:
        """Its computing has begun."""

    def put(self, output: Output) -> None:
        """Some of it is done."""

    def end(self, error: EngineError) -> None:
        """It has failed. After its end this does nothing."""


OpenedT = TypeVar("OpenedT", bound=Opened)


class EngineClient(Generic[OpenedT]):
    """The life of an engine and its open requests, whatever it computes, and wherever.

    `async with front` or `front.start()` … `await front.close()`. All methods belong to the event loop that started it.
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
        self._back_at: float | None = None  # by the clock, while the engine's side is started again
        self._stats = EngineStats()
        self._stats_before: EngineStats | None = None  # counts of the engine's sides that have died
        self._heartbeat = time.monotonic()
        self._quarantine = CrashQuarantine()
        self.is_asleep = False

    @property
    def pid(self) -> int | None:
        """The process of the engine's side; None if it is this one, or away."""
        return self._link.pid

    def kill(self) -> None:
        """End the engine's side, which has stalled, if it is a process; then it is started again."""
        self._link.kill()

    def start(self) -> None:
        """Begin to serve, on the running loop."""
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
        """Whether the engine's side has died and is being started again."""
        return self._back_at is not None

    @property
    def heartbeat_age_s(self) -> float:
        """Seconds since the engine last began a step or, when idle, looked for work: about a second at most then.

        Zero while it sleeps or is started again: that it doesn't move is no news then.
        """
        return 0.0 if self.is_restarting or self.is_asleep else time.monotonic() - self._heartbeat

    @property
    def num_open(self) -> int:
        """Requests whose callers have not left."""
        return len(self._opened)

    def stats(self) -> EngineStats:
        """The state after the last step, or after what has come or gone since."""
        return self._stats

    async def check(self) -> None:
        """Raise EngineError if the engine has lost a cache block, or has given one to two."""
        self._refuse_if_lost()
        await self._ask(Check)

    async def drain(self, timeout_s: float) -> None:
        """Refuse new requests, wait until all callers have left, then end what is left with EngineClosed."""
        self._is_closed = True
        error = EngineClosed("the engine was stopped before the request was complete")
        await self._end_after(timeout_s, error, lambda _: True)

    async def close(self) -> None:
        """End all requests and the engine; returns when the step in progress, if any, is done."""
        await self.drain(0)
        await self._link.stop()

    async def sleep(self, timeout_s: float) -> None:
        """Give weights and cache back. New requests get EngineAsleep, and those that haven't ended by the timeout.

        Raises CannotSleep.
        """
        if not self._link.can_relaunch:
            raise CannotSleep("the model can't sleep: its engine is no process of its own (engine.worker)")
        self.is_asleep = True
        await self._end_after(timeout_s, EngineAsleep(_ASLEEP, _ASLEEP_RETRY_S), lambda _: True)
        await self._link.stop()
        self._back_at = None
        self._forget_state()

    async def wake(self) -> None:
        """Load again what sleeps. Raises ModelLoadError, and then it sleeps on."""
        await self._link.relaunch()
        self.is_asleep = False
        self.on_restart()

    def on_report(self, report: Report) -> None:
        """What the engine's side tells goes to those who wait for it, if they are still there."""
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
        """All requests end with EngineFailed."""
        self._back_at = None if restart_in_s is None else self._clock() + restart_in_s
        self._forget_state()
        for words in {words for opened in self._opened.values() if (words := opened.words()) is not None}:
            self._quarantine.note(words)
        for opened in self._opened.values():
            error = EngineFailed("the engine has failed")
            error.__cause__ = reason
            opened.end(error)
        if restart_in_s is None:
            self.failed.set_result(reason)

    def _forget_state(self) -> None:
        """Of the stats only counts go on."""
        self._stats_before = self._stats
        self._stats = _add(EngineStats(), self._stats)

    def on_restart(self) -> None:
        """New requests are served again."""
        self._back_at = None
        self._heartbeat = time.monotonic()

    def _take_stats(self, stats: EngineStats) -> None:
        if self._stats_before is not None:
            stats = _add(stats, self._stats_before)
        has_stepped = stats.num_steps > self._stats.num_steps
        self._stats = stats
        if has_stepped and self._observer:
            self._observer.on_step(stats)

    def _refuse_if_away(self, *deadlines: float | None) -> None:
        """Raise what keeps a request from being served at all."""
        if self._is_closed and not self.failed.done():
            raise EngineClosed("the engine takes no new requests")
        self._refuse_if_lost()
        now = self._clock()
        if any(deadline is not None and deadline <= now for deadline in deadlines):
            raise DeadlineExceeded("the deadline passed before the request began")

    def _refuse_if_lost(self) -> None:
        if self.failed.done():
            raise EngineFailed("the engine has failed")
        if self.is_asleep:
            raise EngineAsleep(_ASLEEP, _ASLEEP_RETRY_S)
        if self._back_at is not None:
            message = "the engine of this model has failed and is being started again"
            raise EngineRestarting(message, retry_after_s(self._back_at - self._clock()))

    def _requests(self) -> list[OpenedT]:
        """Those that are open, the oldest first."""
        return [each for each in self._opened.values() if not isinstance(each, PendingCall)]

    def _open(self, opened: OpenedT | PendingCall, command: abc.Callable[[int], Command]) -> int:
        """Send what `command` makes of a new serial, and note who waits for it."""
        serial = next(self._serials)
        self._link.send(command(serial))
        self._opened[serial] = opened
        return serial

    async def _end_after(
        self, timeout_s: float, error: EngineError, fits: abc.Callable[[OpenedT | PendingCall], bool]
    ) -> None:
        """Wait until the callers of all requests that fit have left, then end with `error` what is left of them."""
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
        """Send what `command` makes of a new serial, at once, and wait for what comes of it."""
        pending_call = PendingCall()
        return self._brought(self._open(pending_call, command), pending_call)

    async def _brought(self, serial: int, pending_call: PendingCall) -> Output:
        try:
            return await pending_call.done
        finally:
            self._leave(serial)

    def _leave(self, *serials: int) -> None:
        """Forget what the serials name, and let the engine's side forget it."""
        for serial in serials:
            if not self._opened.pop(serial).is_complete:
                self._link.send(Abort(serial))
        self._left.set()


def _add(stats: EngineStats, before: EngineStats) -> EngineStats:
    """`stats` with counts that go on from those before."""
    return stats._replace(**{name: getattr(stats, name) + getattr(before, name) for name in _COUNTERS})
