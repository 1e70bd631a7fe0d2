"""Compute how many requests may be in flight, from the speed of a lone answer and the highest rate of all together.

In flight are all requests between Envoy, which counts them, and the engine. Little's law connects the three measures:
`n` answers in flight that are computed at a total rate of `r` tokens per second each get `r / n`. An answer alone gets
`s`. So at most `slowdown * r / s` answers may be in flight if each is to take at most `slowdown` times as long as alone,
whatever they share: slots of the batch, or the processor time of any hop.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_SLOWDOWN = 3.0
_MIN_KNEE = 2
_WINDOW_S = 0.5  # of a measurement of the rate
_RATE_HALF_LIFE_S = 60.0  # of the highest rate
_SPEED_HALF_LIFE_S = 600.0  # of the highest speed
_MEMORY = 0.95  # weight of earlier answers in the mean length


class Limit(NamedTuple):
    """The number of requests that may be in flight.

    `knee` holds during an overload. `burst` is the number whose last one begins within the maximal queue wait; more of
    them are an overload.
    """

    knee: int
    burst: int


class _Highest:
    """The highest of several values, each of which fades with a half-life in seconds."""

    def __init__(self, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self._value = 0.0
        self._recorded = 0.0

    def record(self, now: float, value: float) -> None:
        """Record a value."""
        if value > (faded := self.at(now)):
            faded = value
        self._value, self._recorded = faded, now

    def at(self, now: float) -> float:
        """Return the highest value; 0 without any."""
        return float(self._value * 0.5 ** ((now - self._recorded) / self._half_life_s))


class LoadLimit:
    """The limit of one engine. Used by the event loop only; all instants are of one clock, in seconds."""

    def __init__(self, max_running: int, max_wait_s: float) -> None:
        """`max_running` is the number of the engine's slots, `max_wait_s` the maximal queue wait."""
        self._max_running = max_running
        self._max_wait_s = max_wait_s
        self._rate = _Highest(_RATE_HALF_LIFE_S)  # tokens per second of all answers
        self._speed = _Highest(_SPEED_HALF_LIFE_S)  # tokens per second of one answer
        self._window: tuple[float, int] | None = None  # its start, and the tokens generated up to then
        self._mean_tokens = 0.0  # of an answer

    def record_end(self, now: float, num_tokens: int, run_s: float) -> None:
        """Record the end of an answer that ran for `run_s` seconds."""
        self._mean_tokens = _MEMORY * self._mean_tokens + (1 - _MEMORY) * num_tokens if self._mean_tokens else num_tokens
        if num_tokens and run_s > 0:
            self._speed.record(now, num_tokens / run_s)

    def record_step(self, now: float, num_open: int, num_tokens: int) -> None:
        """Record, after a step, the number of open requests and the number of tokens generated since the start."""
        if not num_open:
            self._window = None
        elif self._window is None:
            self._window = now, num_tokens
        elif (elapsed_s := now - self._window[0]) >= _WINDOW_S:
            self._rate.record(now, (num_tokens - self._window[1]) / elapsed_s)
            self._window = now, num_tokens

    def limit(self, now: float) -> Limit | None:
        """Return the limit, or None if nothing was measured."""
        rate, speed = self._rate.at(now), self._speed.at(now)
        if not rate or not speed or not self._mean_tokens:
            return None
        knee = max(_MIN_KNEE, min(math.ceil(_SLOWDOWN * rate / speed), self._max_running))
        return Limit(knee, self._max_running + math.floor(rate / self._mean_tokens * self._max_wait_s))
