"""The part of an engine's client that generators and embedders share: lifecycle, open requests and statistics."""

from __future__ import annotations

import asyncio
import time
from collections import abc
from itertools import count
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from service.engine.client.cache_watch import CacheWatch
from service.engine.client.crash_quarantine import CrashQuarantine
from service.engine.client.pending_call import PendingCall
from service.engine.client.running_stats import RunningStats
from service.engine.interface.messages import Abort, Check, Command, Output, Report, WatchCache
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
    ModelChanged,
)
from service.generation.stats import EngineStats

_ASLEEP = "the model is asleep until it is woken"
_ASLEEP_RETRY_S = 1.0
_RELOAD_RETRY_S = 5.0
_SUSPENDED_RETRY_S = 5.0


class Opened(Protocol):
    """A request or call, which the core identifies by a serial until its caller has left."""

    @property
    def is_complete(self) -> bool:
        """True if the core has nothing more to do for it."""

    def description(self) -> str | None:
        """Return its description for the `CrashQuarantine`, or None if it can no longer cause a crash."""

    def start(self) -> None:
        """Record that the core has started to compute it."""

    def put(self, output: Output) -> None:
        """Deliver one of its outputs."""

    def end(self, error: EngineError) -> None:
        """End it with an error. Do nothing after its end."""


OpenedT = TypeVar("OpenedT", bound=Opened)


class EngineClient(Generic[OpenedT]):
    """The lifecycle and the open requests of an engine on a thread or in a process.

    It runs within `async with client`, or from `client.start()` to `await client.close()`. All methods must be called
    on the event loop that started it.
    """

    def __init__(
        self,
        link: Link,
        *,
        max_model_len: int,
        observer: StepObserver | None = None,
        clock: abc.Callable[[], float] = time.monotonic,
        is_asleep: bool = False,
    ) -> None:
        """With `is_asleep`, `wake` loads the model for the first time."""
        self.max_model_len = max_model_len
        self._link = link
        self._observer = observer
        self._clock = clock
        self._serials = count()
        self._opened: dict[int, OpenedT | PendingCall] = {}  # oldest first
        self._left = asyncio.Event()  # set whenever a caller leaves
        self._is_closed = False
        self._back_at: float | None = None  # by the clock, while the core restarts
        self._stats = RunningStats()
        self._heartbeat = time.monotonic()
        self._quarantine = CrashQuarantine()
        self.is_asleep = is_asleep
        self.cache_watch = CacheWatch(lambda callers: link.send(WatchCache(callers)))

    @property
    def pid(self) -> int | None:
        """The core's process id, or None if the core runs in this process or its process is down."""
        return self._link.pid

    def kill(self) -> None:
        """Kill the process of a stalled core, if it has one; it is restarted."""
        self._link.kill()

    def start(self) -> None:
        """Start to serve on the running loop."""
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
        """True if the core has died and is being restarted."""
        return self._back_at is not None

    @property
    def is_suspended(self) -> bool:
        """True if a signal such as SIGSTOP has stopped the core's process."""
        return self._link.is_suspended

    @property
    def heartbeat_age_s(self) -> float:
        """Seconds since the engine last began a step or, when idle, sent a heartbeat, which it does every second.

        It is 0 while the engine is asleep or restarting.
        """
        return 0.0 if self.is_restarting or self.is_asleep else time.monotonic() - self._heartbeat

    @property
    def num_open(self) -> int:
        """The number of requests and calls whose callers have not left."""
        return len(self._opened)

    def stats(self) -> EngineStats:
        """Return the state after the last step, updated by later arrivals and ends."""
        return self._stats.last

    async def check(self) -> None:
        """Raise EngineError if a cache block is lost or has two owners."""
        self._reject_if_not_running()
        await self._call(Check)

    async def drain(self, timeout_s: float) -> None:
        """Reject new requests, wait for open ones until the timeout, then end the remaining ones with EngineClosed."""
        self._is_closed = True
        self.cache_watch.close()
        error = EngineClosed("the engine was stopped before the request was complete")
        await self._end_after(timeout_s, error, lambda _: True)

    async def close(self) -> None:
        """End all requests and the engine. Return when the step in progress, if any, is done."""
        await self.drain(0)
        await self._link.stop()

    async def sleep(self, timeout_s: float) -> None:
        """Free weights and cache. New requests, and those that have not ended by the timeout, get EngineAsleep.

        Raise CannotSleep if the core runs in this process.
        """
        if not self._link.can_relaunch:
            raise CannotSleep("the model can't sleep: its engine runs in the service's process (engine.worker)")
        self.is_asleep = True
        await self._end_after(timeout_s, EngineAsleep(_ASLEEP, _ASLEEP_RETRY_S), lambda _: True)
        await self._link.stop()
        self._back_at = None
        self._stats.restart()
        self.cache_watch.clear()

    async def wake(self) -> None:
        """Load the model again after `sleep`.

        Raise ModelLoadError if that fails, and its subclass ModelChanged if the model's files have changed; the engine
        then stays asleep.
        """
        self._on_loaded(await self._link.relaunch())
        self.is_asleep = False
        self.on_restart()

    def _on_loaded(self, description: Any) -> None:
        """Handle the core's description when `wake` has loaded it."""

    def on_report(self, report: Report) -> None:
        """Deliver the outputs and errors of a report to the requests that are still open."""
        if report.heartbeat is not None:
            self._heartbeat = report.heartbeat
        for stats in report.stats:
            if self._stats.update(stats) and self._observer:
                self._observer.on_step(self._stats.last)
        for serial in report.started:
            if opened := self._opened.get(serial):
                opened.start()
        for serial, output in report.outputs:
            if opened := self._opened.get(serial):
                opened.put(output)
        for serial, error in report.errors:
            if opened := self._opened.get(serial):
                opened.end(error)
        self.cache_watch.add(report.cache_events)

    def on_death(self, reason: BaseException, restart_in_s: float | None) -> None:
        """End all requests with EngineFailed, and quarantine them."""
        self._back_at = None if restart_in_s is None else self._clock() + restart_in_s
        self._stats.restart()
        self.cache_watch.clear()
        descriptions = {each.description() for each in self._opened.values()}
        for description in filter(None, descriptions):
            self._quarantine.record_death(description)
        for opened in self._opened.values():
            error = EngineFailed("the engine has failed")
            error.__cause__ = reason
            opened.end(error)
        if restart_in_s is None:
            self.failed.set_result(reason)

    def on_restart(self) -> None:
        """Serve new requests again after a restart of the core."""
        self._back_at = None
        self._heartbeat = time.monotonic()
        self.cache_watch.restart()

    def _reject_if_unavailable(self, *deadlines: float | None) -> None:
        """Raise the error with which a request with these deadlines must be rejected, if there is one."""
        if self._is_closed and not self.failed.done():
            raise EngineClosed("the engine takes no new requests")
        self._reject_if_not_running()
        now = self._clock()
        if any(deadline is not None and deadline <= now for deadline in deadlines):
            raise DeadlineExceeded("the deadline passed before the request began")

    def _reject_if_not_running(self) -> None:
        if self.failed.done():
            if isinstance(self.failed.result(), ModelChanged):
                raise EngineRestarting("the files of this model have changed, and it is loaded again", _RELOAD_RETRY_S)
            raise EngineFailed("the engine has failed")
        if self.is_asleep:
            raise EngineAsleep(_ASLEEP, _ASLEEP_RETRY_S)
        if self._back_at is not None:
            message = "the engine of this model has failed and is being restarted"
            raise EngineRestarting(message, retry_after_s(self._back_at - self._clock()))
        if self.is_suspended:
            raise EngineRestarting("the process of this model's engine is suspended", _SUSPENDED_RETRY_S)

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
        """Wait until all requests for which `fits` is True have left; after the timeout end the rest with `error`."""
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

    def _call(self, command: abc.Callable[[int], Command]) -> abc.Awaitable[Output]:
        """Send the command that `command` makes of a new serial immediately, and return its future output."""
        pending_call = PendingCall()
        return self._result_of(self._open(pending_call, command), pending_call)

    async def _result_of(self, serial: int, pending_call: PendingCall) -> Output:
        try:
            return await pending_call.done
        finally:
            self._leave(serial)

    def _leave(self, *serials: int) -> None:
        """Unregister requests or calls, and abort those that are not complete."""
        for serial in serials:
            if not self._opened.pop(serial).is_complete:
                self._link.send(Abort(serial))
        self._left.set()
