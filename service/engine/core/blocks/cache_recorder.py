"""Record which blocks of the prefix cache the requests of watching callers can use.

A caller learns of the blocks of its own prompts and answers only, also if it shares a cache with other callers: the
tokens of other blocks are others' prompts, and their hashes would confirm a guess.
"""

from __future__ import annotations

from array import array
from collections import abc
from typing import Final

from service.engine.core.blocks.content_hash import content_hash
from service.engine.core.sequences.sequence import Sequence
from service.engine.interface.cache_events import BlocksRemoved, BlocksStored, CacheCleared, CacheEvent

MAX_PENDING: Final = 4096  # events between two reports; more are replaced by CacheCleared


class CacheRecorder:
    """Collects events between two reports. Only the engine's thread uses it."""

    def __init__(self, block_size: int, is_cached: abc.Callable[[bytes], bool]) -> None:
        """`is_cached` returns whether the block with a content hash can be found in the cache."""
        self._block_size = block_size
        self._is_cached = is_cached
        self._callers: abc.Collection[str] = ()
        self._knowing: dict[bytes, set[str]] = {}  # the callers that know of a block, by its content hash
        self._events: list[CacheEvent] = []

    @property
    def is_on(self) -> bool:
        """Whether any caller watches."""
        return bool(self._callers)

    def watch(self, callers: abc.Collection[str]) -> None:
        """Record the blocks of these callers from now on, and of no others."""
        gone = {*self._callers} - {*callers}
        self._callers = frozenset(callers)
        if gone:
            self._knowing = {content: left for content, knowing in self._knowing.items() if (left := knowing - gone)}

    def add(self, sequence: Sequence, first: int, last: int) -> None:
        """Record that the blocks `first` to `last - 1` of a sequence are in the cache.

        The blocks before them may be gone; then these can't be found.
        """
        request = sequence.request
        if request.caller_id not in self._callers or request.images:
            return
        hashes = [content_hash(sequence, index, self._block_size) for index in range(last)]
        last = next((index for index, each in enumerate(hashes) if not self._is_cached(each)), last)
        first = min(first, last)
        known = [request.caller_id in self._knowing.get(each, ()) for each in hashes]
        while first and not known[first - 1]:
            first -= 1  # they were computed before the caller watched
        while first < last:
            end = next((index for index in range(first, last) if known[index]), last)
            if end > first:
                self._add_run(sequence, hashes, first, end)
            first = end + 1

    def _add_run(self, sequence: Sequence, hashes: abc.Sequence[bytes], first: int, last: int) -> None:
        """Record blocks of which the caller doesn't know."""
        request = sequence.request
        for content in hashes[first:last]:
            self._knowing.setdefault(content, set()).add(request.caller_id)
        stored = BlocksStored(
            request.caller_id,
            tuple(map(_short, hashes[first:last])),
            _short(hashes[first - 1]) if first else None,
            array("i", sequence.token_ids[first * self._block_size : last * self._block_size]),
            request.adapter,
            request.cache_salt,
        )
        self._append(stored)

    def remove(self, content: bytes) -> None:
        """Record that a block is not in the cache any more."""
        for caller_id in self._knowing.pop(content, ()):
            self._append(BlocksRemoved(caller_id, (_short(content),)))

    def take(self) -> list[CacheEvent]:
        """Return the events since the last call."""
        events, self._events = self._events, []
        return events

    def _append(self, event: CacheEvent) -> None:
        """Add an event. Too many are dropped: then the callers know of no block, and learn of them again."""
        if len(self._events) >= MAX_PENDING:
            self._knowing.clear()
            self._events = [CacheCleared()]
            return
        self._events.append(event)


def _short(content: bytes) -> int:
    """Return the 64 bits of a content hash by which clients know a block."""
    return int.from_bytes(content[:8], signed=True)
