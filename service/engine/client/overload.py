"""Detect sustained overload, and decide which requests are admitted while it lasts."""

from __future__ import annotations

import math
from typing import NamedTuple

_DURATION_S = 2.0  # of an overload after the last rejection
_MAX_WAIT_S = 0.1  # expected queue wait of an admitted request during an overload
_MIN_RATE = 0.75  # of the highest token rate measured
_MIN_RUNNING = 4  # answers, regardless of measurements
_MEMORY_S = 2.0  # window of a measurement; the weight of older steps halves per window
_MIN_MEASURED_S = 0.1
_MAX_AGE_S = 60.0  # of a measurement
_LATE_S = 1.0  # during which all requests must be late before any is rejected for it


class _Rate(NamedTuple):
    """Tokens generated within a number of seconds, up to the instant `measured`."""

    tokens: float
    seconds: float
    measured: float


class OverloadDetector:
    """Detects the overload of one engine: from a rejected request until none was rejected for two seconds.

    A queue that bridges a burst is harmless. A queue that stays full, because demand exceeds capacity, makes every
    answer late without serving more: under overload it is kept short. For the same reason only as many answers run as
    reach three quarters of the highest token rate that was measured for any number of answers. A request that arrives
    late may be rejected for that, but does not start an overload, because clients can claim any wait. Used by the event
    loop only, except for `max_running`, which any thread may call. All instants are of one clock, in seconds.
    """

    def __init__(self) -> None:
        self._until = -math.inf
        self._late_since = self._late_at = -math.inf  # first and last of consecutive late requests
        self._stepped_at: float | None = None  # the last step, if anything still ran after it
        self._num_running = 0  # after the last step
        self._num_tokens = 0  # generated up to the last step
        self._rates: dict[int, _Rate] = {}  # by the bit length of the number of running answers

    def record_rejection(self, now: float) -> None:
        """Record that a request was rejected because of its estimated queue wait."""
        self._until = now + _DURATION_S

    def is_late(self, now: float, *, late: bool) -> bool:
        """Return whether this request and all others of the last second were late."""
        if not late:
            self._late_at = -math.inf
            return False
        if now - self._late_at > _DURATION_S:
            self._late_since = now
        self._late_at = now
        return self.is_overloaded(now) or now - self._late_since >= _LATE_S

    def is_overloaded(self, now: float) -> bool:
        """Return whether a request was rejected recently."""
        return now < self._until

    def record_step(self, now: float, num_running: int, num_tokens: int) -> None:
        """Record, after a step, the number of running answers and of all tokens generated since the start."""
        if self._stepped_at is not None:
            size = self._num_running.bit_length()
            known = self._rates.get(size, _Rate(0.0, 0.0, now))
            tokens, seconds = known.tokens + num_tokens - self._num_tokens, known.seconds + now - self._stepped_at
            share = 0.5 if seconds > _MEMORY_S else 1.0
            self._rates[size] = _Rate(share * tokens, share * seconds, now)
        self._stepped_at = now if num_running else None
        self._num_running, self._num_tokens = num_running, num_tokens

    def max_wait_s(self, now: float, max_wait_s: float) -> float:
        """Return the highest expected wait of an admitted request, at most the setting `max_wait_s`."""
        return min(max_wait_s, _MAX_WAIT_S) if self.is_overloaded(now) else max_wait_s

    def max_running(self, now: float, max_running: int) -> int:
        """Return how many answers may run, at most `max_running`, the number of slots."""
        enough = self._sufficient(now) if self.is_overloaded(now) else None
        return max_running if enough is None else min(max_running, enough)

    def _sufficient(self, now: float) -> int | None:
        """Return the number of answers that reaches the required rate; None if nothing was measured."""
        rates = {
            size: pace.tokens / pace.seconds
            for size, pace in list(self._rates.items())  # a copy: metrics are read in another thread
            if pace.seconds > _MIN_MEASURED_S and now - pace.measured < _MAX_AGE_S
        }
        if not rates:
            return None
        most = max(rates.values())
        least: int = min(size for size, rate in rates.items() if rate >= _MIN_RATE * most)
        return max((1 << least) - 1, _MIN_RUNNING)
