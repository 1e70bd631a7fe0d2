"""Decide the number of replicas of a pool from their load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from cluster.load import Load

_HEADROOM: Final = 0.8  # a replica is removed only if the load fits this fraction of the rest, to avoid flapping


class Scaling(BaseModel):
    """The scaling rules of a pool."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target_sequences: float = Field(8, gt=0, le=100_000, description="running and waiting sequences per replica")
    max_queue_time_s: float = Field(
        1, gt=0, le=3600, description="mean time from arrival to first step above which a replica is added"
    )
    min_free_cache: float = Field(
        0.05, ge=0, lt=1, description="free fraction of the caches, on average, below which a replica is added"
    )
    up_after_s: float = Field(5, ge=0, le=3600, description="time for which more replicas must be needed")
    down_after_s: float = Field(
        120, ge=0, le=86_400, description="time for which fewer replicas must suffice, for each removal"
    )


class Scaler:
    """The number of replicas of a pool, updated periodically. Times are of a monotonic clock."""

    def __init__(self, scaling: Scaling, least: int, most: int, current: int) -> None:
        self._scaling = scaling
        self._least, self._most = least, most
        self._current = min(max(current, least), most)
        self._more_since: float | None = None
        self._fewer_since: float | None = None

    def decide(self, now: float, loads: Sequence[Load], *, is_called: bool) -> int:
        """Return the number for the loads of serving replicas. With `is_called`, calls came while none served."""
        need = min(max(self._need(loads, is_called=is_called), self._least), self._most)
        if need == self._current:
            self._more_since = self._fewer_since = None
        elif need > self._current:
            self._fewer_since = None
            self._more_since = now if self._more_since is None else self._more_since
            if self._current == 0 or now - self._more_since >= self._scaling.up_after_s:
                self._current, self._more_since = need, None
        else:
            self._more_since = None
            self._fewer_since = now if self._fewer_since is None else self._fewer_since
            if now - self._fewer_since >= self._scaling.down_after_s:
                self._current, self._fewer_since = self._current - 1, now
        return self._current

    def _need(self, loads: Sequence[Load], *, is_called: bool) -> int:
        if not loads:
            return max(self._current, int(is_called))  # starting replicas have no load yet
        sequences = sum(load.running + load.waiting for load in loads)
        started = sum(load.started for load in loads)
        waited_s = sum(load.queue_time_s * load.started for load in loads) / max(started, 1)
        free = sum(load.free_cache for load in loads) / len(loads)
        more = math.ceil(sequences / self._scaling.target_sequences)
        is_overloaded = any(
            load.rejected for load in loads
        )  # under overload queues are kept short and few sequences run
        if is_overloaded or waited_s > self._scaling.max_queue_time_s or free < self._scaling.min_free_cache:
            return max(more, len(loads) + 1, self._current)
        if more > self._current:
            return more
        fewer = math.ceil(sequences / (_HEADROOM * self._scaling.target_sequences))
        return min(max(fewer, int(started > 0)), self._current)
