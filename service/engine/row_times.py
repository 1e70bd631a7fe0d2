"""How long steps take that decode, by their rows, and which number of drafts that makes worth their time."""

from __future__ import annotations

from bisect import bisect_left
from collections import abc

_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)  # rows of steps that are told apart
_GAIN = 1.05  # what drafts must promise over none
_MAX_DRAFTED_STEPS = 32  # in a row, before one without drafts shows again what that takes
_MEMORY = 0.8  # of the time that was known before
_MOST_LONGER = 1.5  # times what was known, as far as one step is believed: other work on the machine passes
_FADING = 0.997  # of the times of more rows with each step without drafts, so that they are tried again, if rarely
_STEPS_A_VIEW = 8
_LEAST_S = 1e-6  # of a step


class RowTimes:
    """The times of one engine's steps without prompts. A row is a sequence's next token, or a draft."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}  # by the size, of _SIZES, that holds the rows
        self._num_drafted = 0  # steps since the last without drafts
        # What follows from the times, made anew every few steps, since it takes as long as a small model's step.
        self._least: dict[int, float] = {}
        self._times: dict[tuple[int, int], float] = {}
        self._num_recorded = 0

    def least_chance(self, num_rows: int) -> float:
        """How likely drafts must be right, beside so many sequences, for one to be worth its time; above 1 for none."""
        size = _size(num_rows)
        if size not in self._seconds or self._num_drafted >= _MAX_DRAFTED_STEPS:
            return 2.0  # the step is to show what it takes without any
        if (least := self._least.get(num_rows)) is None:
            least = self._least[num_rows] = min(
                (_GAIN * num_rows * self._expected(larger, size) / self._seconds[size] - num_rows) / (larger - num_rows)
                for larger in self._tried(num_rows)
            )
        return least

    def best_number(self, num_rows: int, chances: abc.Sequence[float]) -> int:
        """How many drafts, the likeliest first, promise most tokens a second beside so many sequences.

        `chances` fall: how likely each is to be right.
        """
        plain = _size(num_rows)
        best, most = 0, _GAIN * num_rows / self._seconds[plain]
        tokens, done = float(num_rows), 0
        for size in self._tried(num_rows):
            num_drafts = min(size - num_rows, len(chances))
            tokens += sum(chances[done:num_drafts])
            done = num_drafts
            speed = tokens / self._expected(_size(num_rows + num_drafts), plain)
            if speed > most:
                best, most = num_drafts, speed
            if num_drafts == len(chances):
                break
        return best

    def record(self, num_rows: int, num_drafts: int, seconds: float) -> None:
        """Take note of a step of so many sequences and drafts."""
        size = _size(num_rows + num_drafts)
        seconds = max(seconds, _LEAST_S)
        is_new = size not in self._seconds
        known = self._seconds.get(size, seconds)
        self._seconds[size] = _MEMORY * known + (1 - _MEMORY) * min(seconds, _MOST_LONGER * known)
        self._num_drafted = self._num_drafted + 1 if num_drafts else 0
        self._num_recorded += 1
        if self._num_recorded % _STEPS_A_VIEW == 0 or is_new:
            self._least.clear()
            self._times.clear()
        if not num_drafts:
            for larger in self._seconds:
                if larger > size:
                    self._seconds[larger] *= _FADING

    def _tried(self, num_rows: int) -> abc.Sequence[int]:
        """The sizes that may be tried beside so many sequences: up to twice the largest that was ever timed."""
        end = bisect_left(_SIZES, 2 * max(self._seconds)) + 1
        return _SIZES[bisect_left(_SIZES, num_rows + 1) : end]

    def _expected(self, size: int, plain: int) -> float:
        """What a step of this size takes, not less than one of the size `plain`.

        It is what was timed, or what follows from other sizes: more rows take longer, but not more than in proportion.
        A size beyond all that were timed is taken to cost no more than the largest of them, so that it is tried.
        """
        if (found := self._times.get((size, plain))) is None:
            largest = max(self._seconds)
            bounds = [seconds * max(size / each, 1.0) for each, seconds in self._seconds.items() if each >= plain]
            found = self._seconds[largest] if size > largest else max(min(bounds), self._seconds[plain])
            self._times[size, plain] = found
        return found


def _size(num_rows: int) -> int:
    return _SIZES[min(bisect_left(_SIZES, num_rows), len(_SIZES) - 1)]
