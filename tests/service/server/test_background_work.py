"""Work of the server in the background begins again after a fault."""

from __future__ import annotations

import asyncio
import logging

import pytest

from service.server.background_work import keep_working


async def test_work_begins_again_after_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    """Faults are logged, and the work that ends by itself or is cancelled is not repeated."""
    ends = [RuntimeError("a fault"), ExceptionGroup("of a group", [ValueError("another fault")]), None]
    pauses: list[float] = []

    async def work() -> None:
        if (end := ends.pop(0)) is not None:
            raise end

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    with caplog.at_level(logging.ERROR):
        await keep_working(work, sleep)
    assert not ends
    assert pauses == [5.0, 5.0]
    assert "a fault" in caplog.text
    assert "another fault" in caplog.text


async def test_cancelled_work_is_not_repeated() -> None:
    begun = asyncio.Event()

    async def work() -> None:
        assert not begun.is_set()
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(keep_working(work))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
