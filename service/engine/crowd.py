"""Whether more is asked of an engine than it can do, and who is let in as long as that is so."""

from __future__ import annotations

import math

_LASTS_S = 2.0  # after the last refusal
_WAIT_S = 0.1  # that a request may expect meanwhile
_ENOUGH = 0.9  # of the most tokens a second
_FEW = 4  # answers, which may run whatever is measured
_MEMORY_S = 1.0  # of which a number of running answers is measured; what is older counts half, and so on
_MIN_MEASURED_S = 0.1


class Crowd:
    """Of one engine, from the first request that is refused until none was refused for two seconds.

    A line that only bridges a burst costs nobody anything. One that stands, since more is asked all the time than can
    be done, makes each answer late and none more: then it is kept short. For the same reason no more answers are let in
    than are enough for nine tenths of the most tokens a second that were measured with any number of them. Belongs to
    the event loop; all instants are of one clock, in seconds.
    """

    def __init__(self) -> None:
        self._until = -math.inf
        self._at: float | None = None  # the last step, if anything ran after it
        self._num_running = 0  # then
        self._num_tokens = 0  # generated until then
        # Measured, by the bit length of the number of running answers.
        self._tokens: dict[int, float] = {}
        self._seconds: dict[int, float] = {}

    def refused(self, now: float) -> None:
        """A request was refused for its wait."""
        self._until = now + _LASTS_S

    def is_there(self, now: float) -> bool:
        """Whether one was refused lately."""
        return now < self._until

    def stepped(self, now: float, num_running: int, num_tokens: int) -> None:
        """After a step: so many answers run, and so many tokens have been generated since the start."""
        if self._at is not None:
            size = self._num_running.bit_length()
            tokens = self._tokens.get(size, 0.0) + num_tokens - self._num_tokens
            seconds = self._seconds.get(size, 0.0) + now - self._at
            part = 0.5 if seconds > _MEMORY_S else 1.0
            self._tokens[size], self._seconds[size] = part * tokens, part * seconds
        self._at = now if num_running else None
        self._num_running, self._num_tokens = num_running, num_tokens

    def max_wait_s(self, now: float, max_wait_s: float) -> float:
        """What a request may expect to wait, where `max_wait_s` is the setting."""
        return min(max_wait_s, _WAIT_S) if self.is_there(now) else max_wait_s

    def max_running(self, now: float, max_running: int) -> int:
        """How many answers are to run, where there are places for `max_running`."""
        return min(max_running, self._enough()) if self.is_there(now) else max_running

    def _enough(self) -> float:
        rates = {
            size: self._tokens[size] / seconds for size, seconds in self._seconds.items() if seconds > _MIN_MEASURED_S
        }
        most = max(rates.values(), default=0.0)
        least = min((size for size, rate in rates.items() if rate >= _ENOUGH * most), default=math.inf)
        return max(2.0**least - 1, _FEW)
