"""How long a request waits for its beginning, by what was measured: how fast others begin and how long they stay."""

from __future__ import annotations

from collections import abc
from typing import NamedTuple

_MEMORY = 0.8  # of what was known, the part that stays with each new measurement
_MIN_BEGINNINGS = 4  # of requests that had waited, until their pace is known


class Part(NamedTuple):
    """What one key has in the engine."""

    weight: float
    num_waiting: int  # requests
    num_running: int  # sequences


class Turnover:
    """Of one engine. Belongs to the event loop; all instants are of one clock, in seconds."""

    def __init__(self) -> None:
        self._stay_s: float | None = None  # that a sequence runs, from its beginning to its end
        self._pace_s: float | None = None  # between two beginnings, while others wait
        self._num_beginnings = 0  # since nobody waited
        self._last = 0.0  # when one began, or the first in line came

    def came(self, now: float, num_waiting: int) -> None:
        """A request waits, with so many that came before it."""
        if num_waiting == 0:
            self._last, self._pace_s, self._num_beginnings = now, None, 0

    def began(self, now: float, num_requests: int) -> None:
        """So many requests have begun at once."""
        pace_s = (now - self._last) / num_requests
        self._pace_s = pace_s if self._pace_s is None else _MEMORY * self._pace_s + (1 - _MEMORY) * pace_s
        self._num_beginnings += num_requests
        self._last = now

    def ended(self, stay_s: float) -> None:
        """A sequence has ended or was given up."""
        self._stay_s = stay_s if self._stay_s is None else _MEMORY * self._stay_s + (1 - _MEMORY) * stay_s

    def wait_s(
        self, caller_id: str, parts: abc.Mapping[str, Part], max_running: int, mean_age_s: float, now: float
    ) -> float:
        """How long one more request of a key would wait, with `parts` of each key that has any.

        `mean_age_s` is for how long the running sequences have run. Requests count alike, whatever their length.
        """
        mine = parts[caller_id]
        num_waiting = sum(part.num_waiting for part in parts.values())
        num_running = sum(part.num_running for part in parts.values())
        is_full = num_running >= max_running
        if not (num_waiting or is_full) or _has_share(caller_id, parts, max_running, is_full=is_full):
            return 0.0
        ahead = float(mine.num_waiting)
        for name, part in parts.items():
            if name != caller_id:
                ahead += min(part.num_waiting, (mine.num_waiting + 1) * part.weight / mine.weight)
        each_s = self._each_s(max_running, mean_age_s, is_full=is_full)
        return (ahead + 1) * max(each_s, now - self._last if num_waiting else 0.0)

    def _each_s(self, max_running: int, mean_age_s: float, *, is_full: bool) -> float:
        """Between two beginnings."""
        if self._pace_s is not None and self._num_beginnings >= _MIN_BEGINNINGS:
            return self._pace_s
        return max(self._stay_s or 0.0, mean_age_s) / max_running if is_full else 0.0


def _has_share(caller_id: str, parts: abc.Mapping[str, Part], max_running: int, *, is_full: bool) -> bool:
    """Whether a key is next and may run beside those that have more than their share, so that it needn't wait."""
    total_weight = sum(part.weight for part in parts.values())
    excess = {
        name: part.num_running - max(1.0, max_running * part.weight / total_weight) for name, part in parts.items()
    }
    others = [each for name, each in excess.items() if name != caller_id]
    if parts[caller_id].num_waiting or excess[caller_id] + 1 > 0 or not others:
        return False
    return not is_full or max(others) > 0
