"""Threads for the slow preparation of requests, with a time limit for each task.

The methods are called on the event loop; tasks run on the threads.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from service.engine.interface.retry import retry_after_s
from service.engine.link.process_memory import trim_heap
from service.generation.errors import DeadlineExceeded, EngineClosed, EngineError, EngineOverloaded, InvalidRequest

_MEMORY = 0.1  # weight of the newest task's time in the mean,
_MOST_S = 0.25  # which counts longer times as this one
_LONG = 100_000  # characters of a text that a tokenizer reads in about 0.1 s

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """The limits in seconds of a task and of its wait for a thread (None: the task's), and the number of threads."""

    max_work_s: float = 10.0
    max_wait_s: float | None = None
    num_threads: int = 2

    @property
    def wait_s(self) -> float:
        """The maximal wait for a thread."""
        return self.max_work_s if self.max_wait_s is None else self.max_wait_s


class Workers:
    """The worker threads of one served model, or of the texts of all models.

    `deadline` is always an instant of `clock` in seconds.
    """

    def __init__(self, limits: WorkerLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._turn = asyncio.Semaphore(1)  # for long texts
        self._pool = ThreadPoolExecutor(limits.num_threads, thread_name_prefix="prompt")
        self._num_waiting = 0  # tasks that wait for a thread
        self._mean_work_s = 0.0
        self._is_closed = False

    def close(self) -> None:
        """Stop the threads. Tasks that wait for one, or come later, get EngineClosed."""
        self._is_closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def run(
        self, work: Callable[[], _Result], deadline: float | None, too_long: InvalidRequest, *, num_characters: int = 0
    ) -> _Result:
        """Run `work`, which reads `num_characters`; long texts are read one at a time, regardless of the client.

        The others wait without a thread, so that short texts are read meanwhile. Raise the same errors as `_run`.
        """
        if num_characters <= _LONG:
            return await self._run(work, deadline, too_long)
        await self._within_limit(self._turn.acquire(), deadline, self._busy(), self.limits.wait_s)

        def work_and_trim() -> _Result:
            try:
                return work()
            finally:
                trim_heap()  # the library allocates a hundred times the size of a long text, and would not free it

        return await self._run(work_and_trim, deadline, too_long, on_end=self._turn.release)

    async def _run(
        self,
        work: Callable[[], _Result],
        deadline: float | None,
        too_long: InvalidRequest,
        on_end: Callable[[], None] | None = None,
    ) -> _Result:
        """Run `work`, and then `on_end` on the loop.

        Raise `too_long` after the time limit, DeadlineExceeded after the deadline, and the errors of `work`.

        Raise EngineOverloaded if no thread is free within the maximum wait, immediately if the wait is certainly
        longer. The wait for a thread is not charged to this request. A thread can't be stopped: after the limit its
        result is ignored.
        """
        if self._is_closed or self._num_waiting * self._mean_work_s / self.limits.num_threads > self.limits.wait_s:
            if on_end is not None:
                on_end()
            raise EngineClosed("the model is no longer served") if self._is_closed else self._busy()
        loop = asyncio.get_running_loop()
        is_started = asyncio.Event()

        def begin() -> _Result:
            loop.call_soon_threadsafe(is_started.set)
            began = self._clock()
            try:
                return work()
            finally:
                took_s = min(self._clock() - began, _MOST_S)
                self._mean_work_s += _MEMORY * (took_s - self._mean_work_s)

        running = self._pool.submit(begin)
        if on_end is not None:
            running.add_done_callback(lambda _: loop.call_soon_threadsafe(on_end))
        result = asyncio.wrap_future(running)
        try:
            self._num_waiting += 1
            try:
                await self._within_limit(is_started.wait(), deadline, self._busy(), self.limits.wait_s)
            finally:
                self._num_waiting -= 1
            return await self._within_limit(result, deadline, too_long, self.limits.max_work_s)
        finally:
            result.cancel()  # so that no thread starts it any more

    async def read(
        self, work: Callable[[], _Result], deadline: float | None, field: str, *, num_characters: int = 0
    ) -> _Result:
        """Read a text or tokens without generation. Raise InvalidRequest for `field`, and the errors of `run`."""
        too_long = InvalidRequest(field, f"it took longer than {self.limits.max_work_s:g} s to read")
        return await self.run(work, deadline, too_long, num_characters=num_characters)

    async def _within_limit(
        self, awaited: Awaitable[_Result], deadline: float | None, too_long: EngineError, limit_s: float
    ) -> _Result:
        """Wait for `awaited`. The smaller limit is chosen before the wait, because timers may be early."""
        left_s = math.inf if deadline is None else deadline - self._clock()
        by_deadline = left_s < limit_s
        try:
            async with asyncio.timeout(min(left_s, limit_s)):
                return await awaited
        except TimeoutError:
            if by_deadline:
                raise DeadlineExceeded("the deadline passed before the request was ready to run") from None
            raise too_long from None

    def _busy(self) -> EngineOverloaded:
        """Return the error for a request for which no thread was free."""
        message = "the threads that prepare requests are busy with other requests"
        return EngineOverloaded(message, retry_after_s(self.limits.wait_s))
