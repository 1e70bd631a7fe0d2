"""Nothing that was accepted is lost when processes are stopped under load."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.e2e.stack import Stack
from tests.soak.load import AWAY, DONE, Load


@asynccontextmanager
async def under(load: Load) -> AsyncIterator[None]:
    """The load runs beside the block; at the end its last requests are awaited."""
    enough = asyncio.Event()
    running = asyncio.create_task(load.run(enough))
    try:
        async with asyncio.timeout(60):
            await until_num(load, 4 * load.num_callers)
        yield
    finally:
        enough.set()
        await running


async def until_num(load: Load, count: int) -> None:
    """Return when so many requests more have ended."""
    wanted = load.outcomes.total() + count
    while load.outcomes.total() < wanted:  # noqa: ASYNC110 a counter has no event
        await asyncio.sleep(0.02)


async def test_the_runner_drains_all() -> None:
    """SIGTERM of the runner: each request is answered whole, or finds nobody listening; the code is 0."""
    stack = Stack()
    try:
        await asyncio.to_thread(stack.wait_for, "sluice is ready.")
        load = Load(stack.door, num_callers=16)
        async with under(load):
            stack.process.send_signal(signal.SIGTERM)
            num_before = load.num(DONE)
            code = await asyncio.to_thread(stack.wait)
    finally:
        stack.stop()
    assert code == 0, stack.output
    assert not load.lost(), load.lost()
    assert load.num(AWAY)
    assert load.num(DONE) - num_before > load.num_callers  # it served on for a while
