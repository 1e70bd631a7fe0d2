"""Numbers that take long to count: clients that ask for the same one share the work, and wait for a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class SharedCounts:
    """Running counts by key. A count continues if its client disconnects. Used on the event loop only."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[int]] = {}

    async def number(self, key: str, count: Callable[[], Coroutine[Any, Any, int]], timeout_s: float) -> int | None:
        """Return the number of a key; None if it isn't known in time. Raise what `count` raises.

        Without time, no count is begun.
        """
        task = self._running.get(key)
        if task is None:
            if timeout_s <= 0:
                return None
            task = self._running[key] = asyncio.create_task(count())
            task.add_done_callback(lambda ended: self._end(key, ended))
        await asyncio.wait([task], timeout=max(0.0, timeout_s))
        return task.result() if task.done() else None

    def _end(self, key: str, task: asyncio.Task[int]) -> None:
        del self._running[key]
        if not task.cancelled():
            task.exception()  # nobody may wait for it
