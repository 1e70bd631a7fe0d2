"""The threads that do a request's slow preparations, with a time limit for each.

Called on the event loop; the work itself runs elsewhere.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from service.engine.retry import retry_after_s
from service.engine.settle import trim
from service.generation.errors import DeadlineExceeded, EngineError, EngineOverloaded, InvalidRequest

_LONG = 100_000  # characters of a text that takes a tokenizer about a tenth of a second

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Seconds that one piece of work may take, and how many threads there are.

    As long may it wait for one of them to be free.
    """

    max_work_s: float = 10.0
    num_threads: int = 2


class Workers:
    """The worker threads of one served model, or of what reads texts for all models.

    `deadline` is always a `time.monotonic()` instant in seconds.
    """

    def __init__(self, limits: WorkerLimits) -> None:
        self.limits = limits
        self._turn = asyncio.Semaphore(1)  # of long texts
        self._pool = ThreadPoolExecutor(limits.num_threads, thread_name_prefix="prompt")

    def close(self) -> None:
        """Stop the threads; nothing may be run after."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def run(
        self, work: Callable[[], _Result], deadline: float | None, too_long: InvalidRequest, *, num_characters: int = 0
    ) -> _Result:
        """Do `work`, which reads so many characters; of long texts one is read at a time, whoever sent them.

        The others wait for it without a thread, so that short texts are read meanwhile. Raises as `_run`.
        """
        if num_characters <= _LONG:
            return await self._run(work, deadline, too_long)
        await self._within_limit(self._turn.acquire(), deadline, self._busy())

        def settled() -> _Result:
            try:
                return work()
            finally:
                trim()  # the library's memory for a long text is a hundred times the text, and would be kept

        return await self._run(settled, deadline, too_long, on_end=self._turn.release)

    async def _run(
        self,
        work: Callable[[], _Result],
        deadline: float | None,
        too_long: InvalidRequest,
        on_end: Callable[[], None] | None = None,
    ) -> _Result:
        """Do `work`, and `on_end` on the loop when no thread does it any more.

        Raises `too_long` past the limit, DeadlineExceeded past the deadline, and what `work` does.

        Raises EngineOverloaded if as long as that no thread is free: what others ask for is not this request's fault. A
        thread can't be stopped: past the limit it is left to itself.
        """
        loop = asyncio.get_running_loop()
        begun = asyncio.Event()

        def begin() -> _Result:
            loop.call_soon_threadsafe(begun.set)
            return work()

        running = self._pool.submit(begin)
        if on_end is not None:
            running.add_done_callback(lambda _: loop.call_soon_threadsafe(on_end))
        result = asyncio.wrap_future(running)
        try:
            await self._within_limit(begun.wait(), deadline, self._busy())
            return await self._within_limit(result, deadline, too_long)
        finally:
            result.cancel()  # so that no thread takes it up any more

    async def read(
        self, work: Callable[[], _Result], deadline: float | None, field: str, *, num_characters: int = 0
    ) -> _Result:
        """Read a text or tokens that nothing is generated from. Raises InvalidRequest of `field`, else as `run`."""
        too_long = InvalidRequest(field, f"it took longer than {self.limits.max_work_s:g} s to read")
        return await self.run(work, deadline, too_long, num_characters=num_characters)

    async def _within_limit(
        self, awaited: Awaitable[_Result], deadline: float | None, too_long: EngineError
    ) -> _Result:
        """Wait for `awaited`; which of the two bounds is the smaller is settled before, since timers may be early."""
        left_s = math.inf if deadline is None else deadline - time.monotonic()
        by_deadline = left_s < self.limits.max_work_s
        try:
            async with asyncio.timeout(min(left_s, self.limits.max_work_s)):
                return await awaited
        except TimeoutError:
            if by_deadline:
                raise DeadlineExceeded("the deadline passed before the request was ready to run") from None
            raise too_long from None

    def _busy(self) -> EngineOverloaded:
        message = "the threads that prepare requests are busy with others"
        return EngineOverloaded(message, retry_after_s(self.limits.max_work_s))
