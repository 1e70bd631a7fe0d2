"""The tasks of the work that this process has claimed from a store, one for each key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT")


class ClaimedTasks(Mapping[KeyT, asyncio.Task[None]], Generic[KeyT]):
    """Running tasks by key. Used on the event loop's thread only."""

    def __init__(self) -> None:
        self._tasks: dict[KeyT, asyncio.Task[None]] = {}
        self._leaving: set[KeyT] = set()

    def __getitem__(self, key: KeyT) -> asyncio.Task[None]:
        return self._tasks[key]

    def __iter__(self) -> Iterator[KeyT]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    async def may_begin(self, key: KeyT) -> bool:
        """Return whether work that was claimed should begin, which is not so if it runs here.

        Then its lease has ended and is this process's again. A task that was cancelled, or that gives its work back, is
        awaited first.
        """
        if (task := self._tasks.get(key)) is None:
            return True
        if key not in self._leaving and not task.cancelling():
            return False
        await asyncio.wait([task])
        return True

    def begin(self, key: KeyT, work: Coroutine[None, None, None], on_end: Callable[[], None]) -> None:
        """Run the work of a key for which `may_begin` was true, and call `on_end` when it has ended."""
        task = self._tasks[key] = asyncio.create_task(work)

        def end(_: asyncio.Task[None]) -> None:
            del self._tasks[key]
            self._leaving.discard(key)
            on_end()

        task.add_done_callback(end)

    def leave(self, key: KeyT) -> None:
        """Record that the task of `key` is about to give its work back, so that it can be claimed."""
        self._leaving.add(key)
