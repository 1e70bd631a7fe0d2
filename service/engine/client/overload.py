"""Detect sustained overload, and limit admission while it lasts."""

from __future__ import annotations

import math
from typing import NamedTuple

_DURATION_S = 2.0  # of an overload after the last rejection
_MAX_WAIT_S = 0.1  # expected queue wait of an admitted request during an overload
_MIN_RATE = 0.75  # of the highest token rate measured
_MIN_RUNNING = 4  # choices, regardless of measurements
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
    """Detects the overload of one engine. It starts with a rejection, and ends two seconds after the last one.

    A queue that absorbs a burst is harmless. A queue that stays full, because demand exceeds capacity, delays every
    answer without serving more, so it is kept short under overload. For the same reason the number of running choices
    is limited to the smallest number whose measured token rate is at least three quarters of the highest one. A request
    that arrives late may be rejected for that, but does not start an overload, because clients can claim any wait. Used
    by the event loop only, except for `max_running`, which any thread may call. All instants are of one clock, in
    seconds.
    """

    def __init__(self) -> None:
        self._until = -math.inf
        self._late_since = self._late_at = -math.inf  # arrivals of the first and last of consecutive late requests
        self._stepped_at: float | None = None  # the end of the last step, if anything still ran after it
        self._num_running = 0  # after the last step
        self._num_tokens = 0  # generated up to the last step
        self._rates: dict[int, _Rate] = {}  # by the bit length of the number of running choices

    def record_rejection(self, now: float) -> None:
        """Record that a request was rejected because of its estimated queue wait."""
        self._until = now + _DURATION_S

    def record_delay(self, now: float, *, is_late: bool) -> bool:
        """Record whether a request arrived late. Return True if it should be rejected for that.

        A late request is rejected during an overload, or if all requests of the last second were late.
        """
        if not is_late:
            self._late_at = -math.inf
            return False
        if now - self._late_at > _DURATION_S:
            self._late_since = now
        self._late_at = now
        return self.is_overloaded(now) or now - self._late_since >= _LATE_S

    def is_overloaded(self, now: float) -> bool:
        """Return whether a request was rejected in the last two seconds."""
        return now < self._until

    def record_step(self, now: float, num_running: int, num_tokens: int) -> None:
        """Record, after a step, the number of running choices and the number of tokens generated since the start."""
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
        """Return the number of choices that may run, at most `max_running`, the number of slots."""
        enough = self._sufficient(now) if self.is_overloaded(now) else None
        return max_running if enough is None else min(max_running, enough)

    def _sufficient(self, now: float) -> int | None:
        """Return the number of choices that reaches the required rate, or None if nothing was measured."""
        rates = {
            size: rate.tokens / rate.seconds
            for size, rate in list(self._rates.items())  # a copy: metrics are read on another thread
            if rate.seconds > _MIN_MEASURED_S and now - rate.measured < _MAX_AGE_S
        }
        if not rates:
            return None
        most = max(rates.values())
        least: int = min(size for size, rate in rates.items() if rate >= _MIN_RATE * most)
        return max((1 << least) - 1, _MIN_RUNNING)
