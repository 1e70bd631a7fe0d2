"""The names of what the cache holds, by which it can be found again by another process."""

from __future__ import annotations

from collections import abc
from typing import Final, NamedTuple

BLOCK: Final = 0
STATE: Final = 1


class CacheEntry(NamedTuple):
    """A cached block, or the recurrent state after a cached prefix."""

    kind: int  # BLOCK or STATE
    key: bytes  # of its content: a hash of the salt and of all tokens up to its end; of a block also its group
    row: int  # in the backend's memory: the block's id, or the state's slot


def merge(blocks: abc.Iterable[tuple[bytes, int]], states: abc.Mapping[bytes, int]) -> list[CacheEntry]:
    """Return the entries of blocks and states, each state after the block with its key."""
    entries = []
    for key, block_id in blocks:
        entries.append(CacheEntry(BLOCK, key, block_id))
        if (slot := states.get(key)) is not None:
            entries.append(CacheEntry(STATE, key, slot))
    return entries
