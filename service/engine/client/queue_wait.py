"""Estimate a request's queue wait from the rate at which slots are released."""

from __future__ import annotations

import math
from collections import abc
from typing import NamedTuple

_MEMORY = 0.8  # weight of the previous estimate at each measurement
_MIN_STARTS = 4  # of queued requests, before their rate is known


class KeyLoad(NamedTuple):
    """The requests and sequences of one key in the engine."""

    weight: float
    num_waiting: int  # requests
    num_running: int  # sequences

    @property
    def num_open(self) -> int:
        """The number of waiting requests and running sequences."""
        return self.num_waiting + self.num_running


class QueueWaitEstimator:
    """Estimates the queue wait of one engine. Used by the event loop only; instants are of one clock, in seconds."""

    def __init__(self) -> None:
        self._run_s: float | None = None  # moving average of the time that a sequence runs
        self._num_started = 0.0  # requests that started while others waited, with decaying weight,
        self._start_s = 0.0  # and the time between the starts, likewise
        self._num_starts = 0  # since the queue was empty
        self._last = 0.0  # when a request started, or arrived at an empty queue

    def record_arrival(self, now: float, num_waiting: int) -> None:
        """Record the arrival of a request behind `num_waiting` queued ones."""
        if num_waiting == 0:
            self._last, self._num_started, self._start_s, self._num_starts = now, 0.0, 0.0, 0

    def record_start(self, now: float, num_requests: int) -> None:
        """Record the start of `num_requests` requests in one step."""
        self._num_started = _MEMORY * self._num_started + num_requests
        self._start_s = _MEMORY * self._start_s + now - self._last
        self._num_starts += num_requests
        self._last = now

    def record_end(self, run_s: float) -> None:
        """Record the end of a sequence after `run_s` seconds."""
        self._run_s = run_s if self._run_s is None else _MEMORY * self._run_s + (1 - _MEMORY) * run_s

    @property
    def run_s(self) -> float:
        """The average time that a sequence runs; 0 until it was measured."""
        return self._run_s or 0.0

    def wait_s(
        self, caller_id: str, loads: abc.Mapping[str, KeyLoad], max_running: int, ages_s: abc.Sequence[float]
    ) -> float:
        """Return the expected queue wait of one more request of a key, in seconds.

        `loads` has the loads of all keys in the engine, `ages_s` the time that each running sequence has run. If more
        than `max_running` sequences run, the excess must end before another one may start. Requests count alike,
        regardless of their length. A request that finds a free slot waits only for the prompts before its own; that
        time is known after a few starts.
        """
        own = loads[caller_id]
        num_waiting = sum(load.num_waiting for load in loads.values())
        num_free = max_running - len(ages_s)
        if (num_free > 0 and not num_waiting) or _has_share(caller_id, loads, max_running, num_free):
            return 0.0
        num_before = 1.0 + own.num_waiting  # requests that start before it, and itself
        for name, load in loads.items():
            if name != caller_id:
                num_before += min(load.num_waiting, (own.num_waiting + 1) * load.weight / own.weight)
        by_rate = num_before * self._start_s / self._num_started if self._num_starts >= _MIN_STARTS else math.inf
        num_slots = math.ceil(num_before) - num_free
        by_slots = self._until_free(num_slots, max_running, ages_s) if num_slots > 0 else 0.0
        return by_rate if by_slots == 0.0 and by_rate < math.inf else min(by_rate, by_slots)

    def _until_free(self, num_slots: int, max_running: int, ages_s: abc.Sequence[float]) -> float:
        """Return the time until `num_slots` slots are free, assuming the average run time for each sequence.

        Those that have run longer are expected to end one after another, at the average rate of all sequences, and no
        sequence sooner than the first of these would.
        """
        run_s = max(self._run_s or 0.0, sum(ages_s) / max(len(ages_s), 1))
        due_s = sorted(run_s - age_s for age_s in ages_s)
        num_late = max(sum(each <= 0 for each in due_s), 1)
        left_s = [max(each, min(index, num_late) * run_s / max_running) for index, each in enumerate(due_s, 1)]
        rounds, index = divmod(num_slots - 1, max(len(left_s), 1))
        return rounds * run_s + (left_s[index] if left_s else 0.0)


def has_small_load(caller_id: str, loads: abc.Mapping[str, KeyLoad]) -> bool:
    """Return whether a key has, by weight, less than half the load of the busiest key."""
    most = max(load.num_open / load.weight for load in loads.values())
    return loads[caller_id].num_open / loads[caller_id].weight < most / 2


def load_of_peers(caller_id: str, loads: abc.Mapping[str, KeyLoad]) -> int:
    """Return the open requests of all keys with at most the load, by weight, that a key has with one more request."""
    own = loads[caller_id]
    most = (own.num_open + 1) / own.weight
    return sum(load.num_open for load in loads.values() if load.num_open / load.weight <= most)


def _has_share(caller_id: str, loads: abc.Mapping[str, KeyLoad], max_running: int, num_free: int) -> bool:
    """Return whether a key is next in the queue and below its share of slots, so that it need not wait."""
    total_weight = sum(load.weight for load in loads.values())
    excess = {
        name: load.num_running - max(1.0, max_running * load.weight / total_weight) for name, load in loads.items()
    }
    own = excess.pop(caller_id)
    if loads[caller_id].num_waiting or own + 1 > 0 or not excess:
        return False
    # Others below their share that wait already are before it.
    num_before = sum(loads[name].num_waiting > 0 and each + 1 <= 0 for name, each in excess.items())
    return max(num_free, 0) + sum(each for each in excess.values() if each > 0) > num_before
