"""Buckets and slots in this process."""

from __future__ import annotations

import time
from collections.abc import Callable

from service.quota.bucket import Bucket
from service.quota.store import Demand, Reading

_MIN_SWEPT = 1024


class MemoryStore:
    """A `Store` for one process. It never waits, so that its operations are atomic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns monotonic seconds."""
        self._clock = clock
        self._full_at: dict[str, float] = {}  # instants, of buckets that aren't full
        self._num_held: dict[str, int] = {}
        self._sweep_at = _MIN_SWEPT  # buckets

    async def start(self) -> None:
        """Do nothing: the store is always available."""

    async def take(self, demand: Demand) -> Reading:
        """Take a demand as Store.take."""
        behind_s = [self._behind_s(draw.bucket) for draw in demand.draws]
        num_held = [self._num_held.get(slots.name, 0) for slots in demand.slots]
        is_granted = all(
            draw.bucket.holds(behind, draw.at_least) for draw, behind in zip(demand.draws, behind_s, strict=True)
        ) and all(held < slots.limit for slots, held in zip(demand.slots, num_held, strict=True))
        if is_granted:
            for draw in demand.draws:
                self._move(draw.bucket, draw.num_tokens)
            for slots in demand.slots:
                self._num_held[slots.name] = self._num_held.get(slots.name, 0) + 1
            behind_s = [self._behind_s(draw.bucket) for draw in demand.draws]
            num_held = [self._num_held[slots.name] for slots in demand.slots]
        return Reading(is_granted, behind_s, num_held, self.give_back)

    def give_back(self, demand: Demand) -> None:
        """Return the tokens and slots of a demand."""
        for draw in demand.draws:
            self._move(draw.bucket, -draw.num_tokens)
        for slots in demand.slots:
            if (left := self._num_held[slots.name] - 1) > 0:
                self._num_held[slots.name] = left
            else:
                del self._num_held[slots.name]

    async def close(self) -> None:
        """Do nothing: no operation is pending."""

    @property
    def num_kept(self) -> int:
        """Return the number of stored buckets and slots."""
        return len(self._full_at) + len(self._num_held)

    def _behind_s(self, bucket: Bucket) -> float:
        """Return the seconds until a bucket is full."""
        now = self._clock()
        return max(0.0, self._full_at.get(bucket.name, now) - now)

    def _move(self, bucket: Bucket, num_tokens: int) -> None:
        """Take tokens, or return them if the number is negative."""
        now = self._clock()
        full_at = max(now, self._full_at.get(bucket.name, now)) + bucket.refill_s(num_tokens)
        if full_at > now:
            self._full_at[bucket.name] = full_at
        else:
            self._full_at.pop(bucket.name, None)
        if len(self._full_at) > self._sweep_at:
            self._full_at = {name: full_at for name, full_at in self._full_at.items() if full_at > now}
            self._sweep_at = max(_MIN_SWEPT, 2 * len(self._full_at))
