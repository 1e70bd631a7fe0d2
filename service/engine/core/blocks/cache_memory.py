"""A file in memory with a cache and its index, which outlives the process that computes.

| bytes | content |
|---|---|
| 0 to 31 | the seal: a hash of all that determines the bytes of a block or state, and of the sizes below |
| from 4,096 | the index of blocks, then that of states |
| from a huge page on | the blocks |
| from a huge page on | the states |

Bytes that were never written take no memory.
"""

from __future__ import annotations

import mmap
import os
from collections import abc
from typing import Final

from service.engine.core.blocks.cache_entry import CacheEntry, merge
from service.engine.core.blocks.cache_index import ROW_BYTES, CacheIndex

_PAGE: Final = 4096
_HUGE_PAGE: Final = 2 << 20


class CacheMemory:
    """The rows of blocks and states in a file, with an index of each. Only one process may use it at a time."""

    def __init__(self, file: int, seal: bytes, shapes: abc.Sequence[tuple[int, int]]) -> None:
        """Use an open file, whose content is kept if it has the same seal. Otherwise it is cleared.

        `shapes` has the number and the bytes of blocks and, if there are any, of states. Raise OSError if the file
        can't have this size.
        """
        self.file = file
        counts = [count for count, _ in shapes]
        end = _PAGE + sum(counts) * ROW_BYTES
        self.offsets: list[int] = []
        size = end
        for count, num_bytes in shapes:
            self.offsets.append(_round_up(size, _HUGE_PAGE))
            size = self.offsets[-1] + _round_up(count * num_bytes, _HUGE_PAGE)
        if os.pread(file, len(seal), 0) != seal or os.fstat(file).st_size != size:
            os.ftruncate(file, 0)
            os.ftruncate(file, size)
            os.pwrite(file, seal, 0)
        index = memoryview(mmap.mmap(file, end))[_PAGE:]
        self.block_index = CacheIndex(index, counts[0])
        states = counts[1] if len(counts) > 1 else 0
        self.state_index = CacheIndex(index[counts[0] * ROW_BYTES :], states)

    def entries(self) -> list[CacheEntry]:
        """Return the blocks and states that an earlier process has left, the most useful first."""
        return merge(self.block_index.contents(), dict(self.state_index.contents()))


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
