"""The asyncio tasks for background responses or batch lines that this process has claimed from a store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT")


class ClaimedTasks(Mapping[KeyT, asyncio.Task[None]], Generic[KeyT]):
    """Running tasks by key. Not thread-safe: used on the event loop only."""

    def __init__(self) -> None:
        self._tasks: dict[KeyT, asyncio.Task[None]] = {}
        self._releasing: set[KeyT] = set()

    def __getitem__(self, key: KeyT) -> asyncio.Task[None]:
        return self._tasks[key]

    def __iter__(self) -> Iterator[KeyT]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    async def may_begin(self, key: KeyT) -> bool:
        """Return True if a claimed job should begin, False if its task already runs in this process.

        The latter happens if the job's lease expired and this process claimed the job again. If the old task was
        cancelled or is releasing the job, wait for its end and return True.
        """
        if (task := self._tasks.get(key)) is None:
            return True
        if key not in self._releasing and not task.cancelling():
            return False
        await asyncio.wait([task])
        return True

    def begin(self, key: KeyT, work: Coroutine[None, None, None], on_end: Callable[[], None]) -> None:
        """Run the job of a key for which `may_begin` returned True. Call `on_end` when the task has ended."""
        task = self._tasks[key] = asyncio.create_task(work)

        def end(_: asyncio.Task[None]) -> None:
            del self._tasks[key]
            self._releasing.discard(key)
            on_end()

        task.add_done_callback(end)

    def mark_releasing(self, key: KeyT) -> None:
        """Record that the task of `key` is about to release its job in the store, for another claim."""
        self._releasing.add(key)
