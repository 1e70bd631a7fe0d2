"""Threads that tokenize many texts in chunks, so that a large request doesn't delay others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from service.generation.errors import EngineClosed

_NUM_THREADS = 2
_MAX_CHUNK_ITEMS = 64
_MAX_CHUNK_CHARACTERS = 65_536  # or one longer text
_CLOSED = "the model is no longer served"

_Read = TypeVar("_Read")
_Result = TypeVar("_Result")


class TextThreads:
    """The threads that tokenize the texts of one model. It is called on the event loop.

    Texts longer than a chunk are read one at a time, so that a thread remains for the others. Calls raise EngineClosed
    if the threads are stopped first.
    """

    def __init__(self, name: str) -> None:
        """`name` is the prefix of the threads' names."""
        self._pool = ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix=name)
        self._turn = asyncio.Semaphore(1)  # for long texts
        self._is_closed = False

    def close(self) -> None:
        """Stop the threads as soon as they have ended what they have begun."""
        self._is_closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """Return the result of `work`."""
        return await self._result(self._submit(work))

    async def read(self, sizes: Sequence[int], read: Callable[[range], Iterable[_Read]]) -> list[_Read]:
        """Return the joined results of `read` for runs of items; `sizes` are in characters."""
        loop = asyncio.get_running_loop()
        found: list[_Read] = []
        for indices in chunks(sizes):
            is_long = sizes[indices[0]] > _MAX_CHUNK_CHARACTERS
            if is_long:
                await self._turn.acquire()
            try:
                reading = self._submit(partial(read, indices))
            except EngineClosed:
                if is_long:
                    self._turn.release()
                raise
            if is_long:  # also a cancelled request keeps its turn until the thread is free
                reading.add_done_callback(lambda _: loop.call_soon_threadsafe(self._turn.release))
            found += await self._result(reading)
        return found

    def _submit(self, work: Callable[[], _Result]) -> Future[_Result]:
        """Let a thread begin `work` as soon as one is free. Raise EngineClosed."""
        if self._is_closed:
            raise EngineClosed(_CLOSED)
        return self._pool.submit(work)

    async def _result(self, running: Future[_Result]) -> _Result:
        """Return the result of what was submitted. Raise EngineClosed if no thread has begun it before the end."""
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._is_closed and task is not None and not task.cancelling():
                raise EngineClosed(_CLOSED) from None
            raise


def chunks(sizes: Sequence[int]) -> Iterator[range]:
    """Yield runs of indices, each of which takes a worker little time, unless it is a single long text."""
    start = total = 0
    for index, size in enumerate(sizes):
        if index > start and (index - start == _MAX_CHUNK_ITEMS or total + size > _MAX_CHUNK_CHARACTERS):
            yield range(start, index)
            start, total = index, 0
        total += size
    if sizes:
        yield range(start, len(sizes))
