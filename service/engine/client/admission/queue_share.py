"""The share of an engine's queue that each API key may fill."""

from __future__ import annotations

from collections import abc
from typing import NamedTuple


class QueuedRequest(NamedTuple):
    """A queued request: its API key with its weight, and its size in the unit of a limit."""

    caller_id: str
    weight: float
    size: int


class QueueShare:
    """Decides whether a queue with a limit has capacity for one more request of an API key.

    A key may use what others leave free of the limit, and always its share of it by weight among the queued keys. So a
    key that has filled the queue causes rejections of its own requests only.
    """

    def __init__(self, limit: int, queued: abc.Iterable[QueuedRequest], caller_id: str, weight: float) -> None:
        weights = {caller_id: weight}
        self._limit = limit
        self.num_queued = self._num_own = 0
        for each in queued:
            weights.setdefault(each.caller_id, each.weight)
            self.num_queued += each.size
            self._num_own += each.size if each.caller_id == caller_id else 0
        self._share = limit * weight / sum(weights.values())

    def has_capacity(self, size: int) -> bool:
        """Return True if a request of this size may be queued."""
        return self.num_queued + size <= self._limit or self._num_own + size <= self._share
