"""The threads that prepare requests, and the errors if time runs out."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial

import pytest

from service.generation.errors import DeadlineExceeded, EngineOverloaded, InvalidRequest
from service.prompts.preparing.workers import WorkerLimits, Workers
from tests.engine.fakes import Clock
from tests.waiting import GUARD_S

TOO_LONG = InvalidRequest("prompt", "it took too long")


@pytest.fixture
async def release() -> AsyncIterator[threading.Event]:
    """Yield an event that releases stuck work at the end."""
    release = threading.Event()
    yield release
    release.set()


async def test_work_runs_on_a_separate_thread() -> None:
    """The result of the work, or its exception, is returned."""
    workers = Workers(WorkerLimits())
    assert await workers.run(threading.get_ident, None, TOO_LONG) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await workers.run(lambda: 1 / 0, None, TOO_LONG)
    workers.close()


async def test_timer_before_the_deadline_is_still_deadline_exceeded(release: threading.Event) -> None:
    """If a loop's timer fires before the clock shows the deadline, the error is still DeadlineExceeded."""
    workers = Workers(WorkerLimits(num_threads=1), Clock(100.0))
    for deadline in (100.008, 100.001, 100.0, 99.0):
        with pytest.raises(DeadlineExceeded):
            await workers.run(release.wait, deadline, TOO_LONG)  # the first one runs, and the second waits for a thread
    workers.close()


async def test_work_above_its_time_limit_is_an_invalid_request(release: threading.Event) -> None:
    """Work that takes longer than its limit is rejected even if the deadline is near."""
    deadline = 2 * GUARD_S
    # It is read when the request begins to wait for a thread, which may take long, and later when the work begins.
    clock = itertools.chain([0.0], itertools.repeat(deadline - 0.02)).__next__
    workers = Workers(WorkerLimits(max_work_s=0.01, max_wait_s=GUARD_S), clock)
    with pytest.raises(InvalidRequest) as caught:
        await workers.run(release.wait, deadline, TOO_LONG)
    assert caught.value is TOO_LONG
    workers.close()


async def test_request_without_a_thread_gets_a_retry_time(release: threading.Event) -> None:
    """The retry time is the time of the wait, but at least a second."""
    workers = Workers(WorkerLimits(max_work_s=GUARD_S, max_wait_s=0.01, num_threads=1))
    begun = threading.Event()

    def work() -> None:
        begun.set()
        release.wait(GUARD_S)

    async def occupy() -> None:
        """Run work until a thread has begun it: a slow machine may need longer than the maximal wait for that."""
        while not begun.is_set():
            with suppress(EngineOverloaded):
                await workers.run(work, None, TOO_LONG)

    stuck = asyncio.create_task(occupy())
    await asyncio.to_thread(begun.wait)
    with pytest.raises(EngineOverloaded, match="busy") as caught:
        await workers.run(release.wait, None, TOO_LONG)
    assert caught.value.retry_after_s == 1.0
    release.set()
    await stuck
    workers.close()


async def test_request_with_a_too_long_expected_wait_is_rejected_immediately(release: threading.Event) -> None:
    """Only as many requests wait as can be expected to get a thread in time; later ones are rejected at once."""
    clock = Clock()
    workers = Workers(WorkerLimits(num_threads=1, max_wait_s=GUARD_S), clock)

    def work() -> None:
        clock.now += 0.2

    for _ in range(20):
        await workers.run(work, None, TOO_LONG)
    stuck = asyncio.create_task(workers.run(release.wait, None, TOO_LONG))
    waiting = [asyncio.create_task(workers.run(lambda: None, None, TOO_LONG)) for _ in range(int(GUARD_S / 0.1))]
    await asyncio.sleep(0)  # each one has begun to wait, or was rejected
    rejected = [each for each in waiting if each.done()]
    assert 0 < len(rejected) < len(waiting)
    for each in rejected:
        assert isinstance(each.exception(), EngineOverloaded)
    release.set()
    await asyncio.gather(stuck, *waiting, return_exceptions=True)
    assert await workers.run(lambda: "served", None, TOO_LONG) == "served"
    workers.close()


async def test_work_of_a_cancelled_request_is_not_started(release: threading.Event) -> None:
    """A request that is cancelled before it has a thread is not run later."""
    workers = Workers(WorkerLimits(num_threads=1))
    begun = threading.Event()
    done: list[int] = []

    def work() -> None:
        begun.set()
        release.wait(GUARD_S)

    stuck = asyncio.create_task(workers.run(work, None, TOO_LONG))
    await asyncio.to_thread(begun.wait)
    left = asyncio.create_task(workers.run(lambda: done.append(1), None, TOO_LONG))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    release.set()
    await stuck
    await workers.run(lambda: done.append(2), None, TOO_LONG)
    assert done == [2]
    workers.close()


async def test_slow_tokenization_is_rejected_by_field(release: threading.Event) -> None:
    """A text that takes too long to read is rejected for its field."""
    workers = Workers(WorkerLimits(max_work_s=0.01, max_wait_s=GUARD_S))
    with pytest.raises(InvalidRequest, match=r"longer than 0\.01 s") as caught:
        await workers.read(release.wait, None, "text")
    assert caught.value.field == "text"
    workers.close()


async def test_long_texts_do_not_block_short_ones() -> None:
    """A second long text takes no thread before the first is done, even if the first request was cancelled."""
    workers = Workers(WorkerLimits(num_threads=2))
    gates = [threading.Event(), threading.Event()]
    begun: list[int] = []
    too_long = InvalidRequest("f", "too long")

    def read(index: int) -> int:
        begun.append(index)
        gates[index].wait(GUARD_S)
        return index

    def reading(index: int) -> asyncio.Task[int]:
        work = workers.run(partial(read, index), None, too_long, num_characters=1_000_000)
        return asyncio.create_task(work)

    first = reading(0)
    while not begun:  # noqa: ASYNC110  set by another thread
        await asyncio.sleep(0.001)
    first.cancel()
    second = reading(1)
    assert await workers.run(lambda: "short", None, too_long, num_characters=12) == "short"
    assert begun == [0]
    gates[0].set()
    gates[1].set()
    assert await second == 1
    assert begun == [0, 1]
    workers.close()
