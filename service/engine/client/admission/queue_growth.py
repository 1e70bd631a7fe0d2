"""Detect a queue that grows or stands, which is an overload, in contrast to one that a burst has left."""

from __future__ import annotations

import math

_INTERVAL_S = 2.0  # at least, of a measurement
_INTERVAL_SHARE = 0.25  # of the maximal queue wait, if that is longer
_BURST_SHARE = 0.25  # of the interval: requests that arrive within it belong to one burst


class QueueGrowth:
    """Compares the length of a queue at the beginning and at the end of intervals in which it was never empty.

    The queue of a burst becomes shorter, since nothing but the burst has filled it. Used by the event loop only.
    """

    def __init__(self) -> None:
        self._began = -math.inf  # of the interval
        self._num_before = 0  # the largest number of requests that waited at its beginning

    def record_arrival(self, now: float, num_waiting: int, max_wait_s: float) -> bool:
        """Record a request that arrived behind `num_waiting` queued ones. Return True if the queue has not shrunk.

        `max_wait_s` is the maximal queue wait: a burst that was admitted with it has left the queue by then.
        """
        interval_s = min(max(_INTERVAL_S, _INTERVAL_SHARE * max_wait_s), max_wait_s)
        elapsed_s = now - self._began
        if num_waiting == 0:
            self._began, self._num_before = now, 0
        elif elapsed_s < _BURST_SHARE * interval_s:
            self._num_before = max(self._num_before, num_waiting)
        elif elapsed_s >= interval_s:
            has_grown = num_waiting >= self._num_before
            self._began, self._num_before = now, num_waiting
            return has_grown
        return False
