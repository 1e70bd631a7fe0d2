"""The time by which stored content ages: the wall clock, except that a jump ahead is believed only after a while.

What has expired is deleted for good. If the clock is set wrong, or the machine starts with a wrong one, nothing is
deleted until an operator has had the time to correct it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_MINUTE_NS: Final = 60_000_000_000
_DAY_NS: Final = 24 * 60 * _MINUTE_NS


class AgeClock:
    """A clock in nanoseconds since the epoch, for content that expires after `max_age_s`.

    A jump ahead of more than a minute has an effect after a day of running, or half of `max_age_s` if that is less.
    Between two processes only a jump of more than this time is one, since they may have been as far apart. A clock that
    was set back has its effect immediately, since nothing expires earlier by it.
    """

    def __init__(
        self,
        max_age_s: float,
        seen_ns: int | None = None,
        wall_ns: Callable[[], int] = time.time_ns,
        running_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`seen_ns` is the time that an earlier process had at last; None if there was none."""
        self._patience_ns = min(_DAY_NS, round(max_age_s * 1e9 / 2))
        self._tolerance_ns = self._patience_ns  # of the first reading
        self._wall_ns = wall_ns
        self._running_ns = running_ns
        self._base_ns = wall_ns() if seen_ns is None else seen_ns
        self._base_running_ns = running_ns()
        self._jumped_at: int | None = None  # on the clock of running time

    def __call__(self) -> int:
        """Return the time."""
        wall, running = self._wall_ns(), self._running_ns()
        expected = self._base_ns + running - self._base_running_ns
        if wall - expected > self._tolerance_ns:
            if self._jumped_at is None:
                self._jumped_at = running
            if running - self._jumped_at < self._patience_ns:
                return expected
        self._jumped_at = None
        self._tolerance_ns = min(_MINUTE_NS, self._patience_ns)
        self._base_ns, self._base_running_ns = wall, running
        return wall
