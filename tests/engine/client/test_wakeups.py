"""WakeupLimiter: few events are set per turn of the loop, and none is lost."""

from __future__ import annotations

import asyncio

from service.engine.client.output_stream import OutputStream
from service.engine.client.wakeups import WakeupLimiter
from tests.engine.client.test_output_stream import output


async def test_a_turn_sets_no_more_than_the_limit() -> None:
    """Events are set in the order of the calls, and other work runs between the turns."""
    wakeups, events = WakeupLimiter(max_per_turn=3), [asyncio.Event() for _ in range(8)]
    for event in events:
        wakeups.wake(event)
    counts = []
    for _ in range(4):
        counts.append([event.is_set() for event in events].count(True))
        assert all(event.is_set() for event in events[: counts[-1]])
        await asyncio.sleep(0)
    assert counts == [3, 6, 8, 8]


async def test_a_waiting_event_is_set_once() -> None:
    """An event that is woken several times while it waits is set once."""
    wakeups, events = WakeupLimiter(max_per_turn=1), [asyncio.Event() for _ in range(3)]
    for _ in range(5):
        for event in events:
            wakeups.wake(event)
    for _ in range(2):
        await asyncio.sleep(0)
    assert all(event.is_set() for event in events)
    events[0].clear()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not events[0].is_set()


async def test_a_turn_after_an_idle_one_has_capacity() -> None:
    """A single event is set immediately."""
    wakeups = WakeupLimiter(max_per_turn=1)
    for _ in range(3):
        event = asyncio.Event()
        wakeups.wake(event)
        assert event.is_set()
        await asyncio.sleep(0)


async def test_many_readers_leave_turns_to_other_work() -> None:
    """Of 64 readers with output, at most the limit are served between two turns."""
    wakeups = WakeupLimiter()
    streams = [OutputStream(1, wakeups) for _ in range(64)]
    read: list[int] = []

    async def reader(index: int) -> None:
        read.extend([index async for _ in streams[index]])

    async with asyncio.TaskGroup() as group:
        for index in range(64):
            group.create_task(reader(index))
        await asyncio.sleep(0)
        for stream in streams:
            stream.put(output("a", last=True))
        before, most = 0, 0
        while len(read) < 64:
            await asyncio.sleep(0)
            most, before = max(most, len(read) - before), len(read)
    assert read == list(range(64))
    assert 0 < most <= 8
