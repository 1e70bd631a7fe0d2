"""Events of a generator's prefix cache, for clients that choose servers by what their caches hold."""

from __future__ import annotations

from collections import abc
from typing import NamedTuple, TypeAlias


class BlocksStored(NamedTuple):
    """Consecutive blocks that requests of a caller can use from now on.

    `hashes` identify the blocks, `parent` the block before the first; None for the first of a prompt. `token_ids` has
    the tokens of all blocks, which have equal numbers of them.
    """

    caller_id: str
    hashes: tuple[int, ...]  # of 64 bits, signed
    parent: int | None
    token_ids: abc.Sequence[int]
    adapter: str = ""
    cache_salt: str = ""


class BlocksRemoved(NamedTuple):
    """Blocks that are no longer in the cache, of those that were reported to a caller as stored."""

    caller_id: str
    hashes: tuple[int, ...]


class CacheCleared(NamedTuple):
    """None of the blocks reported so far counts any more; those that are still in use are reported again."""


CacheEvent: TypeAlias = BlocksStored | BlocksRemoved | CacheCleared


class CacheBatch(NamedTuple):
    """Events with their number in the caller's sequence, which has no gaps.

    A snapshot replaces all earlier batches; it may have several parts, of which this is number `part`, with
    `num_blocks` in all of them.
    """

    number: int
    time_ns: int  # since the epoch
    events: abc.Sequence[CacheEvent]
    part: int = 0
    num_parts: int = 0  # 0: no snapshot
    num_blocks: int = 0
