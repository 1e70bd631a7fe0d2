"""The restart policy of a worker process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Restarts:
    """The restart policy of a process: the delay doubles, and the number of restarts is limited.

    `max_deaths` is the number of deaths, each within `steady_s` of the last start, after which it is not restarted.
    """

    first_delay_s: float = 0.5
    max_delay_s: float = 30.0
    max_deaths: int = 5
    steady_s: float = 60.0

    def delay_s(self, num_deaths: int) -> float:
        """Return the seconds to wait before a restart after `num_deaths` consecutive deaths."""
        return min(self.first_delay_s * 2.0 ** (num_deaths - 1), self.max_delay_s)
