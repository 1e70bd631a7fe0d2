"""The threads of a model that is unloaded while requests wait for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable

import pytest

from service.generation.errors import EngineClosed
from service.prompts.preparing.chunk import TextThreads
from tests.engine.fakes import until
from tests.waiting import GUARD_S

LONG = 70_000  # characters


class Held:
    """Threads that tests hold, and the number of texts that they have begun."""

    def __init__(self) -> None:
        self.threads = TextThreads("texts")
        self.num_begun = 0
        self.gate = threading.Event()

    def read(self, indices: range) -> Iterable[int]:
        self.num_begun += 1
        assert self.gate.wait(GUARD_S)
        return indices

    async def call(self, *sizes: int) -> list[int]:
        return await self.threads.read(sizes, self.read)


@pytest.fixture
async def held() -> AsyncIterator[Held]:
    held = Held()
    yield held
    held.gate.set()
    held.threads.close()


async def test_calls_end_as_those_of_a_closed_engine(held: Held) -> None:
    """Those whose texts are being read, those that wait for a thread or a turn, and those that begin later."""
    long = [asyncio.create_task(held.call(LONG, LONG)) for _ in range(3)]
    short = [asyncio.create_task(held.call(1)) for _ in range(2)]
    await until(lambda: held.num_begun == 2)
    held.threads.close()
    held.gate.set()
    results = await asyncio.gather(*long, *short, held.call(1), held.threads.run(int), return_exceptions=True)
    assert [result for result in results if not isinstance(result, EngineClosed)] == [[0]]


async def test_cancelled_call_of_closed_threads_stays_cancelled(held: Held) -> None:
    calls = [asyncio.create_task(held.call(1)) for _ in range(3)]
    await until(lambda: held.num_begun == 2)
    for call in calls:
        call.cancel()
    held.threads.close()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError] * 3
