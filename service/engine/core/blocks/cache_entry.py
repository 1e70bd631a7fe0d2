"""The names of what the cache holds, by which it can be found again by another process."""

from __future__ import annotations

from typing import Final, NamedTuple

BLOCK: Final = 0
STATE: Final = 1


class CacheEntry(NamedTuple):
    """A cached block, or the recurrent state after a cached prefix."""

    kind: int  # BLOCK or STATE
    key: bytes  # of its content: a hash of the salt and of all tokens up to its end; of a block also its group
    row: int  # in the backend's memory: the block's id, or the state's slot
