"""Detect sustained overload, and decide which requests are admitted while it lasts."""

from __future__ import annotations

import math
from typing import NamedTuple

_LASTS_S = 2.0  # after the last refusal
_WAIT_S = 0.1  # that a request may expect meanwhile
_ENOUGH = 0.75  # of the most tokens a second
_FEW = 4  # answers, which may run whatever is measured
_MEMORY_S = 2.0  # of which a number of running answers is measured; what is older counts half, and so on
_MIN_MEASURED_S = 0.1
_OLD_S = 60.0  # what was measured before says nothing any more
_LATE_S = 1.0  # for which all that come have to be late until they are refused for it


class _Pace(NamedTuple):
    """Tokens in so many seconds, until `measured`."""

    tokens: float
    seconds: float
    measured: float


class OverloadDetector:
    """Of one engine, from the first request that is refused until none was refused for two seconds.

    A line that only bridges a burst costs nobody anything. One that stands, since more is asked all the time than can
    be done, makes each answer late and none more: then it is kept short. For the same reason no more answers are let in
    than are enough for three quarters of the most tokens a second that were measured with any number of them. What has
    waited before anybody looked at it may be refused for that, but makes no crowd: who calls may tell any wait. Belongs
    to the event loop, but for `max_running`, which any thread may ask; all instants are of one clock, in seconds.
    """

    def __init__(self) -> None:
        self._until = -math.inf
        self._late_since = self._late_at = -math.inf  # of those that came late without one in time between, or a pause
        self._at: float | None = None  # the last step, if anything ran after it
        self._num_running = 0  # then
        self._num_tokens = 0  # generated until then
        self._paces: dict[int, _Pace] = {}  # by the bit length of the number of running answers

    def refused(self, now: float) -> None:
        """A request was refused for the wait that was measured here."""
        self._until = now + _LASTS_S

    def is_late(self, now: float, *, late: bool) -> bool:
        """Whether this request and all others of the last second were late: one has only been held up somewhere."""
        if not late:
            self._late_at = -math.inf
            return False
        if now - self._late_at > _LASTS_S:
            self._late_since = now
        self._late_at = now
        return self.is_there(now) or now - self._late_since >= _LATE_S

    def is_there(self, now: float) -> bool:
        """Whether one was refused lately."""
        return now < self._until

    def stepped(self, now: float, num_running: int, num_tokens: int) -> None:
        """After a step: so many answers run, and so many tokens have been generated since the start."""
        if self._at is not None:
            size = self._num_running.bit_length()
            known = self._paces.get(size, _Pace(0.0, 0.0, now))
            tokens, seconds = known.tokens + num_tokens - self._num_tokens, known.seconds + now - self._at
            part = 0.5 if seconds > _MEMORY_S else 1.0
            self._paces[size] = _Pace(part * tokens, part * seconds, now)
        self._at = now if num_running else None
        self._num_running, self._num_tokens = num_running, num_tokens

    def max_wait_s(self, now: float, max_wait_s: float) -> float:
        """What a request may expect to wait, where `max_wait_s` is the setting."""
        return min(max_wait_s, _WAIT_S) if self.is_there(now) else max_wait_s

    def max_running(self, now: float, max_running: int) -> int:
        """How many answers are to run, where there are places for `max_running`."""
        enough = self._enough(now) if self.is_there(now) else None
        return max_running if enough is None else min(max_running, enough)

    def _enough(self, now: float) -> int | None:
        """None if nothing was measured."""
        rates = {
            size: pace.tokens / pace.seconds
            for size, pace in list(self._paces.items())  # a copy: metrics are read in another thread
            if pace.seconds > _MIN_MEASURED_S and now - pace.measured < _OLD_S
        }
        if not rates:
            return None
        most = max(rates.values())
        least: int = min(size for size, rate in rates.items() if rate >= _ENOUGH * most)
        return max((1 << least) - 1, _FEW)
