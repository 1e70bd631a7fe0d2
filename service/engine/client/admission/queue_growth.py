"""Detect a queue that doesn't become shorter, which is an overload, in contrast to one that a burst has left."""

from __future__ import annotations

import math

_INTERVAL_S = 2.0  # of a measurement
_MIN_STARTED = 8  # requests that must begin in it
_BURST_SHARE = 0.25  # of the interval: requests that arrive within it belong to one burst
_MIN_LOAD = 0.9  # requests that arrive for each one that begins: the queue of a burst becomes shorter with fewer


class QueueGrowth:
    """Compares arrivals with starts in intervals in which requests always waited for a slot.

    As long as slots are free, requests wait for a step only. Closed-loop callers, such as those of a
    benchmark, keep their number then, so that there is no overload. Used by the event loop only.
    """

    def __init__(self, num_slots: int) -> None:
        self._num_slots = num_slots
        self._began = -math.inf  # of the interval
        self._num_before = 0  # the largest number of requests that waited at its beginning
        self._num_arrived = 0  # since then

    def record_arrivals(self, num_requests: int) -> None:
        """Record requests that were queued."""
        self._num_arrived += num_requests

    def is_standing(self, now: float, num_waiting: int, num_open: int, max_wait_s: float) -> bool:
        """Return whether the queue, of `num_waiting` requests, hasn't shrunk. It must be called before each arrival.

        `num_open` counts the queued and the running ones, `max_wait_s` is the maximal queue wait: a burst that was
        admitted with it has left the queue by then.
        """
        interval_s = min(_INTERVAL_S, max_wait_s)
        elapsed_s = now - self._began
        if num_waiting == 0 or num_open < self._num_slots:
            self._restart(now, 0)
        elif elapsed_s < _BURST_SHARE * interval_s:
            self._num_before = max(self._num_before, num_waiting)
            self._num_arrived = 0
        elif (
            elapsed_s >= interval_s
            and (num_started := self._num_before + self._num_arrived - num_waiting) >= _MIN_STARTED
        ):
            is_standing = self._num_arrived >= _MIN_LOAD * num_started
            self._restart(now, num_waiting)
            return is_standing
        return False

    def _restart(self, now: float, num_waiting: int) -> None:
        """Begin a new interval."""
        self._began, self._num_before, self._num_arrived = now, num_waiting, 0
