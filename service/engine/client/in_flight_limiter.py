"""Compute how many requests may be in flight, from the speed of a lone answer and the highest rate of all together.

Little's law connects the measures: of `n` answers in flight that are computed at a total rate of `r` tokens per second,
each gets `r / n`. An answer alone gets `s`. If each is to take at most `slowdown` times as long as alone, at most
`slowdown * r / s` may be in flight, whatever they share: slots of the batch, or the processor time of any hop.
"""

from __future__ import annotations

import math

from service.engine.interface.in_flight_limit import InFlightLimit

_MIN_SUSTAINED = 2
_MAX_WAITING = 1_000_000  # in a burst; the maximal wait may be infinite
_WINDOW_S = 0.5  # of a measurement of the rate
_RATE_HALF_LIFE_S = 60.0
_SPEED_HALF_LIFE_S = 600.0
_MEMORY = 0.95  # weight of earlier answers in the mean length


class FadingMaximum:
    """The highest of the recorded values, each of which halves in every `half_life_s` seconds of measurement."""

    def __init__(self, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self.value = 0.0

    def record(self, value: float) -> None:
        """Record a value."""
        self.value = max(value, self.value)

    def fade(self, seconds: float) -> None:
        """Reduce the value by the time of one measurement."""
        self.value *= math.exp2(-seconds / self._half_life_s)


class InFlightLimiter:
    """Computes the limit of one engine. Used by the event loop only.

    What was measured holds until newer measurements replace it, however long the engine is idle in between.
    """

    def __init__(self, max_running: int, slowdown: float) -> None:
        """`max_running` is the number of the engine's slots.

        `slowdown` is the time of an answer during an overload as a multiple of its time alone.
        """
        self._max_running = max_running
        self._slowdown = slowdown
        self._rate = FadingMaximum(_RATE_HALF_LIFE_S)  # tokens per second of all answers
        self._speed = FadingMaximum(_SPEED_HALF_LIFE_S)  # tokens per second of one answer
        self._window: tuple[float, int] | None = None  # its start, and the tokens generated up to then
        self._mean_tokens = 0.0  # of an answer

    def record_answer(self, num_tokens: int, duration_s: float) -> None:
        """Record the tokens of a whole answer, and the seconds between the arrival of its request and its end."""
        if num_tokens and duration_s > 0:
            mean = self._mean_tokens or num_tokens
            self._mean_tokens = _MEMORY * mean + (1 - _MEMORY) * num_tokens
            self._speed.record(num_tokens / duration_s)

    def record_step(self, now: float, num_open: int, num_tokens: int) -> None:
        """Record, after a step, the number of open requests and the number of tokens generated since the start."""
        if not num_open:
            self._window = None
        elif self._window is None:
            self._window = now, num_tokens
        elif (elapsed_s := now - self._window[0]) >= _WINDOW_S:
            self._rate.fade(elapsed_s)
            self._speed.fade(elapsed_s)
            self._rate.record((num_tokens - self._window[1]) / elapsed_s)
            self._window = now, num_tokens

    def limit(self, max_wait_s: float, *, is_overloaded: bool) -> InFlightLimit | None:
        """Return the limit, given the maximal queue wait, or None if no answer was measured yet."""
        rate, speed = self._rate.value, self._speed.value
        if not rate or not speed:
            return None
        sustained = max(_MIN_SUSTAINED, min(math.ceil(self._slowdown * rate / speed), self._max_running))
        # The last request of a burst waits until the others behind the running ones have begun.
        num_waiting = min(rate / self._mean_tokens * max_wait_s, _MAX_WAITING)
        return InFlightLimit(sustained, self._max_running + math.floor(num_waiting), is_overloaded)
