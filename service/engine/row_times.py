"""How long steps take that decode, by their rows, and which number of drafts that makes worth their time."""

from __future__ import annotations

from bisect import bisect_left
from collections import abc

_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)  # rows of steps that are told apart
_GAIN = 1.02  # what drafts must promise over none
_MAX_DRAFTED_STEPS = 32  # in a row, before one without drafts shows again what that takes
_MEMORY = 0.5  # of the time that was known before
_FADING = 0.997  # of the times of more rows with each step without drafts, so that they are tried again, if rarely
_LEAST_S = 1e-6  # of a step


class RowTimes:
    """The times of one engine's steps without prompts. A row is a sequence's next token, or a draft."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}  # by the size, of _SIZES, that holds the rows
        self._num_drafted = 0  # steps since the last without drafts

    def least_chance(self, num_rows: int) -> float:
        """How likely drafts must be right, beside so many sequences, for one to be worth its time; above 1 for none."""
        size = _size(num_rows)
        if size not in self._seconds or self._num_drafted >= _MAX_DRAFTED_STEPS:
            return 2.0  # the step is to show what it takes without any
        plain = self._expected(size)
        return min(
            (_GAIN * num_rows * self._expected(larger) / plain - num_rows) / (larger - num_rows)
            for larger in self._tried(num_rows)
        )

    def best_number(self, num_rows: int, chances: abc.Sequence[float]) -> int:
        """How many drafts, the likeliest first, promise most tokens a second beside so many sequences.

        `chances` fall: how likely each is to be right.
        """
        best, most = 0, _GAIN * num_rows / self._expected(_size(num_rows))
        tokens, done = float(num_rows), 0
        for size in self._tried(num_rows):
            num_drafts = min(size - num_rows, len(chances))
            tokens += sum(chances[done:num_drafts])
            done = num_drafts
            speed = tokens / self._expected(_size(num_rows + num_drafts))
            if speed > most:
                best, most = num_drafts, speed
            if num_drafts == len(chances):
                break
        return best

    def record(self, num_rows: int, num_drafts: int, seconds: float) -> None:
        """Take note of a step of so many sequences and drafts."""
        size = _size(num_rows + num_drafts)
        seconds = max(seconds, _LEAST_S)
        known = self._seconds.get(size, seconds)
        self._seconds[size] = _MEMORY * known + (1 - _MEMORY) * seconds
        self._num_drafted = self._num_drafted + 1 if num_drafts else 0
        if not num_drafts:
            for larger in self._seconds:
                if larger > size:
                    self._seconds[larger] *= _FADING

    def _tried(self, num_rows: int) -> abc.Sequence[int]:
        """The sizes that may be tried beside so many sequences: up to twice the largest that was ever timed."""
        end = bisect_left(_SIZES, 2 * max(self._seconds)) + 1
        return _SIZES[bisect_left(_SIZES, num_rows + 1) : end]

    def _expected(self, size: int) -> float:
        """What is known of this size or follows from others: more rows take longer, but not more than in proportion.

        A size beyond all that were timed is taken to cost no more than the largest of them, so that it is tried.
        """
        smaller = [seconds * max(size / each, 1.0) for each, seconds in self._seconds.items() if each <= size]
        larger = [seconds for each, seconds in self._seconds.items() if each > size]
        if not larger and size not in self._seconds:
            return self._seconds[max(self._seconds)]
        return min(smaller + larger)


def _size(num_rows: int) -> int:
    return _SIZES[min(bisect_left(_SIZES, num_rows), len(_SIZES) - 1)]
