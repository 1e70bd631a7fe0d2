"""Estimate a request's queue wait from how fast slots come free."""

from __future__ import annotations

import math
from collections import abc
from typing import NamedTuple

_MEMORY = 0.8  # of what was known, the part that stays with each new measurement
_MIN_BEGINNINGS = 4  # of requests that had waited, until their pace is known


class KeyLoad(NamedTuple):
    """What one key has in the engine."""

    weight: float
    num_waiting: int  # requests
    num_running: int  # sequences

    @property
    def num_open(self) -> int:
        """Both."""
        return self.num_waiting + self.num_running


class QueueWaitEstimator:
    """Of one engine. Belongs to the event loop; all instants are of one clock, in seconds."""

    def __init__(self) -> None:
        self._stay_s: float | None = None  # that a sequence runs, from its beginning to its end
        self._begun = 0.0  # requests that began while others waited, the older the less,
        self._begun_s = 0.0  # and the time that this took, likewise
        self._num_beginnings = 0  # since nobody waited
        self._last = 0.0  # when one began, or the first in line came

    def came(self, now: float, num_waiting: int) -> None:
        """A request waits, with so many that came before it."""
        if num_waiting == 0:
            self._last, self._begun, self._begun_s, self._num_beginnings = now, 0.0, 0.0, 0

    def began(self, now: float, num_requests: int) -> None:
        """So many requests have begun at once."""
        self._begun = _MEMORY * self._begun + num_requests
        self._begun_s = _MEMORY * self._begun_s + now - self._last
        self._num_beginnings += num_requests
        self._last = now

    def ended(self, stay_s: float) -> None:
        """A sequence has ended or was given up."""
        self._stay_s = stay_s if self._stay_s is None else _MEMORY * self._stay_s + (1 - _MEMORY) * stay_s

    def wait_s(
        self, caller_id: str, parts: abc.Mapping[str, KeyLoad], max_running: int, ages_s: abc.Sequence[float]
    ) -> float:
        """How long one more request of a key would wait, with `parts` of each key that has any.

        Where more run than `max_running`, those have to end as well before another may begin.

        `ages_s` are for how long each running sequence has run. Requests count alike, whatever their length. Who finds
        a place waits for the prompts before its own only, and that is known once a few have begun.
        """
        mine = parts[caller_id]
        num_waiting = sum(part.num_waiting for part in parts.values())
        is_full = len(ages_s) >= max_running
        if not (num_waiting or is_full) or _has_share(caller_id, parts, max_running, is_full=is_full):
            return 0.0
        line = 1.0 + mine.num_waiting  # with those that begin before it
        for name, part in parts.items():
            if name != caller_id:
                line += min(part.num_waiting, (mine.num_waiting + 1) * part.weight / mine.weight)
        by_pace = line * self._begun_s / self._begun if self._num_beginnings >= _MIN_BEGINNINGS else math.inf
        num_places = math.ceil(line) - (max_running - len(ages_s))
        by_places = self._until_free(num_places, max_running, ages_s) if num_places > 0 else 0.0
        return by_pace if by_places == 0.0 and by_pace < math.inf else min(by_pace, by_places)

    def _until_free(self, num_places: int, max_running: int, ages_s: abc.Sequence[float]) -> float:
        """Until so many places have come free, if each sequence stays as long as others did.

        One that has stayed longer may end at any time; it is expected to stay for as long again as a place is held on
        average, over all of them.
        """
        stay_s = max(self._stay_s or 0.0, sum(ages_s) / max(len(ages_s), 1))
        left_s = sorted(max(stay_s - age_s, stay_s / max_running) for age_s in ages_s)
        rounds, index = divmod(num_places - 1, max(len(left_s), 1))
        return rounds * stay_s + (left_s[index] if left_s else 0.0)


def has_little(caller_id: str, parts: abc.Mapping[str, KeyLoad]) -> bool:
    """Whether a key has less than half of what the one with the most has, each by its weight: it makes no crowd."""
    most = max(part.num_open / part.weight for part in parts.values())
    return parts[caller_id].num_open / parts[caller_id].weight < most / 2


def _has_share(caller_id: str, parts: abc.Mapping[str, KeyLoad], max_running: int, *, is_full: bool) -> bool:
    """Whether a key is next and may run beside those that have more than their share, so that it needn't wait."""
    total_weight = sum(part.weight for part in parts.values())
    excess = {
        name: part.num_running - max(1.0, max_running * part.weight / total_weight) for name, part in parts.items()
    }
    others = [each for name, each in excess.items() if name != caller_id]
    if parts[caller_id].num_waiting or excess[caller_id] + 1 > 0 or not others:
        return False
    return not is_full or max(others) > 0
