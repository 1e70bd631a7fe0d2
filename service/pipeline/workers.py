"""The threads that do a request's slow preparations.

Owns two pools of threads, one for what turns a request into tokens and one for grammars, and the time limits of both.
Called on the event loop; the work itself runs elsewhere, never on the engine's thread. Knows nothing of the work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from service.engine.admission import retry_after_s
from service.generation.errors import DeadlineExceeded, EngineOverloaded, InvalidRequest, UnsupportedConstraint

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class PipelineLimits:
    """Seconds that one request may spend on the worker threads, and how many of these there are for each purpose.

    As long may it wait for one of them to be free.
    """

    max_render_s: float = 10.0
    max_compile_s: float = 5.0
    num_threads: int = 2


class Workers:
    """The worker threads of one served model, or of what reads texts for all models.

    `deadline` is always a `time.monotonic()` instant in seconds.
    """

    def __init__(self, limits: PipelineLimits) -> None:
        self.limits = limits
        self._renderers = ThreadPoolExecutor(limits.num_threads, thread_name_prefix="prompt")
        self._compilers = ThreadPoolExecutor(limits.num_threads, thread_name_prefix="grammar")

    def close(self) -> None:
        """Stop the threads; nothing may be run after."""
        self._renderers.shutdown(wait=False, cancel_futures=True)
        self._compilers.shutdown(wait=False, cancel_futures=True)

    async def render(self, work: Callable[[], _Result], deadline: float | None, too_long: InvalidRequest) -> _Result:
        """Make a prompt. Raises `too_long` past the limit, DeadlineExceeded past the deadline, and what `work` does.

        Raises EngineOverloaded if as long as that no thread is free: what others ask for is not this request's fault.
        """
        return await _run(self._renderers, work, self.limits.max_render_s, deadline, too_long)

    async def read(self, work: Callable[[], _Result], deadline: float | None, field: str) -> _Result:
        """Read a text or tokens that nothing is generated from. Raises InvalidRequest of `field`, else as `render`."""
        too_long = InvalidRequest(field, f"it took longer than {self.limits.max_render_s:g} s to read")
        return await self.render(work, deadline, too_long)

    async def compile(self, work: Callable[[], _Result], deadline: float | None, field: str) -> _Result:
        """Make a grammar's state. Raises UnsupportedConstraint of `field` past the limit, and as `render` does."""
        too_long = UnsupportedConstraint(
            field, f"the constraint took longer than {self.limits.max_compile_s:g} s to compile"
        )
        return await _run(self._compilers, work, self.limits.max_compile_s, deadline, too_long)


async def _run(
    pool: ThreadPoolExecutor,
    work: Callable[[], _Result],
    limit_s: float,
    deadline: float | None,
    too_long: InvalidRequest,
) -> _Result:
    """Do `work` on a thread of `pool`. A thread can't be stopped: past the limit it is left to itself."""
    loop = asyncio.get_running_loop()
    begun = asyncio.Event()

    def begin() -> _Result:
        loop.call_soon_threadsafe(begun.set)
        return work()

    result = loop.run_in_executor(pool, begin)
    try:
        async with asyncio.timeout(_room_s(limit_s, deadline)):
            await begun.wait()
        async with asyncio.timeout(_room_s(limit_s, deadline)):
            return await result
    except TimeoutError:
        if deadline is not None and time.monotonic() >= deadline:
            raise DeadlineExceeded("the deadline passed before the request was ready to run") from None
        if not begun.is_set():
            message = "the threads that prepare requests are busy with others"
            raise EngineOverloaded(message, retry_after_s(limit_s)) from None
        raise too_long from None
    finally:
        result.cancel()  # so that no thread takes it up any more


def _room_s(limit_s: float, deadline: float | None) -> float:
    return limit_s if deadline is None else min(limit_s, deadline - time.monotonic())
