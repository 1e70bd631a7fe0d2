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
_FULL_SHARE = 0.75  # of the limit: with more requests in flight on average, the rate is that of the limit
_RATE_HALF_LIFE_S = 3.0
_SPEED_HALF_LIFE_S = 600.0
_MEMORY = 0.95  # weight of earlier answers in the mean work
_LONE_MEMORY = 0.8  # weight of earlier answers in the speed, after one that ran alone,
_SHARED_MEMORY = 0.95  # and after a faster one that did not


class InFlightLimiter:
    """Computes the limit of one engine. Used by the event loop only.

    A measurement changes only while newer ones can replace it: the rate while about as many requests are in flight as
    the limit allows, the speed while there are fewer. So no load changes what another one has shown, however long it
    lasts. Both are means, since the highest values that were ever measured suit no later load. An answer that is
    faster than the lone ones raises the speed a little, even if others were in flight.
    """

    def __init__(self, max_running: int, slowdown: float) -> None:
        """`max_running` is the number of the engine's slots.

        `slowdown` is the time of an answer during an overload as a multiple of its time alone.
        """
        self._max_running = max_running
        self._slowdown = slowdown
        self._rate = 0.0  # work per second for all requests
        self._speed = 0.0  # work per second for one request that runs alone
        self._was_alone = False  # whether it was measured alone
        self._step_speed = 0.0  # work per second of steps with one sequence
        self._window: tuple[float, float] | None = None  # its start, and the work done up to then
        self._last = 0.0  # step,
        self._shared_at = -math.inf  # and the last one after which several requests were in flight
        self._open_s = 0.0  # in the window: the time of each request in flight
        self._mean_work = 0.0  # for one request

    def record_answer(self, work: float, duration_s: float) -> None:
        """Record the work for a whole answer in tokens, and the seconds from the arrival of its request to its end."""
        if work and duration_s > 0:
            self._mean_work = _MEMORY * (self._mean_work or work) + (1 - _MEMORY) * work
            speed = work / duration_s
            is_alone = self._last - duration_s >= self._shared_at
            if not self._speed or (is_alone and not self._was_alone):
                self._speed = speed
            elif is_alone or speed > self._speed:
                memory = _LONE_MEMORY if is_alone else _SHARED_MEMORY
                self._speed = memory * self._speed + (1 - memory) * speed
            self._was_alone |= is_alone

    def record_step(self, now: float, num_open: int, work: float, decode_step_s: float = 0.0) -> None:
        """Record, after a step, the number of open requests, and the work for all of them since the start.

        `decode_step_s` is the time of a step that decodes one sequence; 0 if unknown.
        """
        self._step_speed = 1 / decode_step_s if decode_step_s else 0.0
        self._open_s += num_open * (now - self._last)
        self._last = now
        if num_open > 1:
            self._shared_at = now
        if not num_open:
            self._window = None
        elif self._window is None:
            self._window, self._open_s = (now, work), 0.0
        elif (elapsed_s := now - self._window[0]) >= _WINDOW_S:
            self._record_rate((work - self._window[1]) / elapsed_s, self._open_s / elapsed_s, elapsed_s)
            self._window, self._open_s = (now, work), 0.0

    def _record_rate(self, rate: float, mean_open: float, elapsed_s: float) -> None:
        """Record the work per second of a window, in which `mean_open` requests were in flight on average."""
        if mean_open >= _FULL_SHARE * self._sustained and self._rate:
            old = math.exp2(-elapsed_s / _RATE_HALF_LIFE_S)
            self._rate = old * self._rate + (1 - old) * rate
        else:
            self._speed *= math.exp2(-elapsed_s / _SPEED_HALF_LIFE_S)
            self._rate = max(self._rate, rate)

    def limit(self, max_wait_s: float, *, is_overloaded: bool) -> InFlightLimit | None:
        """Return the limit, given the maximal queue wait, or None if no answer was measured yet."""
        rate = self._rate
        if not rate or not self._speed:
            return None
        # The last request of a burst waits until the others behind the running ones have begun.
        num_waiting = min(rate / self._mean_work * max_wait_s, _MAX_WAITING)
        burst = self._max_running + math.floor(num_waiting)
        return InFlightLimit(self._sustained, burst, is_overloaded, self._mean_work / rate)

    @property
    def _sustained(self) -> int:
        """The limit during an overload; the number of slots while it is unknown."""
        number = self._slowdown * self._rate / self._lone_speed if self._lone_speed else math.inf
        return max(_MIN_SUSTAINED, round(min(number, self._max_running)))

    @property
    def _lone_speed(self) -> float:
        """The speed of an answer that runs alone, in work per second.

        Until one did, as after a start under load, it is at least that of steps of one sequence, which the engine
        computes from those of several.
        """
        return self._speed if self._was_alone else max(self._speed, self._step_speed)
