"""The cache events of an engine by caller, for any number of subscriptions. Nothing is recorded while there are none.

The engine never waits for a subscription: each reads the newest events of its caller at its own pace, and ends if
those that it needs next are no longer kept.
"""

from __future__ import annotations

import asyncio
import time
from collections import abc, deque
from contextlib import contextmanager
from typing import Final

from service.engine.interface.cache_events import (
    BlocksRemoved,
    BlocksStored,
    CacheBatch,
    CacheCleared,
    CacheEvent,
)
from service.generation.errors import CacheEventsLost, EngineClosed, EngineError, EngineOverloaded

MAX_KEPT_BLOCKS: Final = 16_384  # in the batches of a caller that subscriptions can repeat
MAX_READERS: Final = 16  # subscriptions of a caller
KEPT_S: Final = 60.0  # after the last subscription has ended, so that it can be resumed
_PART_BLOCKS: Final = 2048  # of a snapshot
_RETRY_S: Final = 1.0
_LOST: Final = "the events from this number on are not kept; subscribe from 0, which begins with the state"


class CallerLog:
    """The events of one caller, numbered without gaps, and the blocks that are in the cache."""

    def __init__(self) -> None:
        # Later than the numbers of any earlier log, which a client may still have from before a restart.
        self.newest = time.time_ns() // 1_000_000
        self.num_readers = 0
        self.changed = asyncio.Event()  # replaced at each change
        self.error: EngineError | None = None  # with which all subscriptions end
        self._batches: deque[CacheBatch] = deque()
        self._num_blocks = 0  # in the batches
        self._live: dict[int, BlocksStored] = {}  # one block each, parents first

    @property
    def first(self) -> int:
        """The number of the oldest batch that is kept."""
        return self.newest + 1 - len(self._batches)

    def add(self, events: abc.Sequence[CacheEvent]) -> None:
        """Append a batch."""
        self.newest += 1
        self._batches.append(CacheBatch(self.newest, time.time_ns(), events))
        self._num_blocks += _num_blocks(events)
        while self._num_blocks > MAX_KEPT_BLOCKS and len(self._batches) > 1:
            self._num_blocks -= _num_blocks(self._batches.popleft().events)
        for event in events:
            self._apply(event)
        self.wake()

    def wake(self) -> None:
        """Let the subscriptions read on."""
        self.changed.set()
        self.changed = asyncio.Event()

    def clear(self) -> None:
        """Report that the cache is empty, unless it is known to be."""
        if self._live:
            self.add([CacheCleared()])

    def read(self, number: int) -> CacheBatch | None:
        """Return a batch, or None if there is none of that number yet. Raise CacheEventsLost if it is gone."""
        if not self.first <= number <= self.newest + 1:
            raise CacheEventsLost(_LOST)
        return self._batches[number - self.first] if number <= self.newest else None

    def snapshot(self) -> abc.Sequence[CacheBatch]:
        """Return the present state as batches, whose last one has the newest number."""
        live: list[CacheEvent] = [*self._live.values()]
        parts = [live[index : index + _PART_BLOCKS] for index in range(0, len(live), _PART_BLOCKS)] or [[]]
        parts[0].insert(0, CacheCleared())
        start = self.newest + 1 - len(parts)
        return [
            CacheBatch(start + index, time.time_ns(), events, index, len(parts), len(live))
            for index, events in enumerate(parts)
        ]

    def _apply(self, event: CacheEvent) -> None:
        match event:
            case BlocksStored():
                size = len(event.token_ids) // len(event.hashes)
                parent = event.parent
                for index, each in enumerate(event.hashes):
                    token_ids = event.token_ids[index * size : (index + 1) * size]
                    self._live[each] = event._replace(hashes=(each,), parent=parent, token_ids=token_ids)
                    parent = each
            case BlocksRemoved():
                for each in event.hashes:
                    self._live.pop(each, None)
            case CacheCleared():
                self._live.clear()


class CacheWatch:
    """The logs of the callers that watch an engine's cache. It is used on the event loop."""

    def __init__(self, watch: abc.Callable[[frozenset[str]], None]) -> None:
        """`watch` lets the core record the events of these callers, and of no others."""
        self._watch = watch
        self._logs: dict[str, CallerLog] = {}

    async def subscribe(self, caller_id: str, number: int) -> abc.AsyncGenerator[CacheBatch, None]:
        """Yield the batches of a caller from `number` on; with 0, a snapshot and all later batches.

        Raise CacheEventsLost if batches in between are gone, EngineOverloaded if there are too many subscriptions, and
        EngineClosed at the engine's end.
        """
        with self._reading(caller_id) as log:
            if not number:
                number = log.newest + 1
                for batch in log.snapshot():
                    yield batch
            while log.error is None:
                changed = log.changed
                if (next_batch := log.read(number)) is None:
                    await changed.wait()
                    continue
                number += 1
                yield next_batch
            raise log.error

    def add(self, events: abc.Sequence[CacheEvent]) -> None:
        """Deliver the events of a report."""
        by_caller: dict[str, list[CacheEvent]] = {}
        for event in events:
            for caller_id in self._logs if isinstance(event, CacheCleared) else (event.caller_id,):
                by_caller.setdefault(caller_id, []).append(event)
        for caller_id, own in by_caller.items():
            if (log := self._logs.get(caller_id)) is not None:
                log.add(own)

    def clear(self) -> None:
        """Report that the cache is empty: its process has ended."""
        for log in self._logs.values():
            log.clear()

    def restart(self) -> None:
        """Record again, in a new process."""
        self.clear()
        if self._logs:
            self._watch(frozenset(self._logs))

    def close(self) -> None:
        """End all subscriptions."""
        for log in self._logs.values():
            log.error = EngineClosed("the model is not served any more")
            log.wake()

    @contextmanager
    def _reading(self, caller_id: str) -> abc.Iterator[CallerLog]:
        """Keep a caller's log for the duration of the block, and for a while after the last one."""
        if (log := self._logs.get(caller_id)) is None:
            log = self._logs[caller_id] = CallerLog()
            self._watch(frozenset(self._logs))
        if log.num_readers >= MAX_READERS:
            text = f"{MAX_READERS} subscriptions of the key are open; that is the limit"
            raise EngineOverloaded(text, _RETRY_S, for_all=True)
        log.num_readers += 1
        try:
            yield log
        finally:
            log.num_readers -= 1
            if not log.num_readers:
                asyncio.get_running_loop().call_later(KEPT_S, self._forget, caller_id, log)

    def _forget(self, caller_id: str, log: CallerLog) -> None:
        """Stop recording a caller's events, unless there is a new subscription."""
        if not log.num_readers and self._logs.get(caller_id) is log:
            del self._logs[caller_id]
            self._watch(frozenset(self._logs))


def _num_blocks(events: abc.Iterable[CacheEvent]) -> int:
    return sum(1 if isinstance(event, CacheCleared) else len(event.hashes) for event in events)
