"""Compute how many requests may be in flight, from the speed of a lone answer and the highest rate of all together.

Little's law connects the measures: if work of `r` tokens per second is done for `n` requests in flight, each gets
`r / n`. A request alone gets `s`. If each is to take at most `slowdown` times as long as alone, at most
`slowdown * r / s` may be in flight, whatever they share: slots of the batch, or the processor time of any hop. Prompts
count as work, so that neither measure depends on how long the prompts are in comparison with the answers.
"""

from __future__ import annotations

import math

from service.engine.interface.in_flight_limit import InFlightLimit

_MIN_SUSTAINED = 2
_MAX_WAITING = 1_000_000  # in a burst; the maximal wait may be infinite
_WINDOW_S = 0.5  # of a measurement of the rate
_RATE_HALF_LIFE_S = 20.0
_SPEED_HALF_LIFE_S = 600.0
_MEMORY = 0.95  # weight of earlier answers in the mean work


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

    A measurement fades only while newer ones can replace it: the rate while as many requests are in flight as the limit
    allows, the speed while there are fewer. So no load changes what another one has shown, however long it lasts.
    """

    def __init__(self, max_running: int, slowdown: float) -> None:
        """`max_running` is the number of the engine's slots.

        `slowdown` is the time of an answer during an overload as a multiple of its time alone.
        """
        self._max_running = max_running
        self._slowdown = slowdown
        self._rate = FadingMaximum(_RATE_HALF_LIFE_S)  # work per second for all requests
        self._speed = FadingMaximum(_SPEED_HALF_LIFE_S)  # work per second for one request
        self._window: tuple[float, float] | None = None  # its start, and the work done up to then
        self._min_open = 0  # requests in the window
        self._mean_work = 0.0  # for one request

    def record_answer(self, work: float, duration_s: float) -> None:
        """Record the work for a whole answer in tokens, and the seconds from the arrival of its request to its end."""
        if work and duration_s > 0:
            self._mean_work = _MEMORY * (self._mean_work or work) + (1 - _MEMORY) * work
            self._speed.record(work / duration_s)

    def record_step(self, now: float, num_open: int, work: float) -> None:
        """Record, after a step, the number of open requests, and the work for all of them since the start."""
        self._min_open = min(self._min_open, num_open)
        if not num_open:
            self._window = None
        elif self._window is None:
            self._window, self._min_open = (now, work), num_open
        elif (elapsed_s := now - self._window[0]) >= _WINDOW_S:
            is_full = self._min_open >= self._sustained
            (self._rate if is_full else self._speed).fade(elapsed_s)
            self._rate.record((work - self._window[1]) / elapsed_s)
            self._window, self._min_open = (now, work), num_open

    def limit(self, max_wait_s: float, *, is_overloaded: bool) -> InFlightLimit | None:
        """Return the limit, given the maximal queue wait, or None if no answer was measured yet."""
        rate, speed = self._rate.value, self._speed.value
        if not rate or not speed:
            return None
        # The last request of a burst waits until the others behind the running ones have begun.
        num_waiting = min(rate / self._mean_work * max_wait_s, _MAX_WAITING)
        return InFlightLimit(self._sustained, self._max_running + math.floor(num_waiting), is_overloaded)

    @property
    def _sustained(self) -> int:
        """The limit during an overload; the number of slots while it is unknown."""
        rate, speed = self._rate.value, self._speed.value
        number = self._slowdown * rate / speed if speed else math.inf
        return max(_MIN_SUSTAINED, math.ceil(min(number, self._max_running)))
