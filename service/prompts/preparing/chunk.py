"""Tokenize many texts in chunks, so that a large request doesn't delay others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_MAX_CHUNK_ITEMS = 64
_MAX_CHUNK_CHARACTERS = 65_536  # or one longer text

_Read = TypeVar("_Read")


async def read_in_chunks(
    pool: ThreadPoolExecutor, sizes: Sequence[int], read: Callable[[range], Iterable[_Read]]
) -> list[_Read]:
    """Return the joined results of `read` for runs of items, on the pool's threads; `sizes` are in characters."""
    loop = asyncio.get_running_loop()
    found: list[_Read] = []
    for indices in chunks(sizes):
        found += await loop.run_in_executor(pool, read, indices)
    return found


def chunks(sizes: Sequence[int]) -> Iterator[range]:
    """Yield runs of indices, each of which takes a worker little time."""
    start = total = 0
    for index, size in enumerate(sizes):
        if index > start and (index - start == _MAX_CHUNK_ITEMS or total + size > _MAX_CHUNK_CHARACTERS):
            yield range(start, index)
            start, total = index, 0
        total += size
    if sizes:
        yield range(start, len(sizes))
