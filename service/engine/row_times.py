"""How long steps take that decode, by their rows, and which number of drafts that makes worth their time."""

from __future__ import annotations

from collections import abc

_GAIN = 1.15  # times what a draft costs, what it must promise
_MOST_SHARE = 0.8  # of a row's average time, what one more row is taken to cost at the most: so the surest are tried
_MEMORY = 0.99  # of earlier steps, with each step
_MOST_LONGER = 1.5  # times what was expected, as far as one step is believed: other work on the machine passes
_LEAST_S = 1e-6  # of a step
# Of the variance of rows, times the weight: with less, few steps differed, or long ago, and what they took is believed
# the less. Else one step that other work fell on could end all drafts, since without any nothing shows what one takes.
_KNOWN = 0.5


class RowTimes:
    """The times of one engine's steps without prompts: so much, and so much more for each row.

    A row is a sequence's next token, or a draft. Recent steps count most, so that the line fits the numbers of rows
    that are usual now.
    """

    def __init__(self) -> None:
        self._weight = 0.0  # of all steps, as they are remembered
        self._rows = 0.0  # the mean of their rows,
        self._seconds = 0.0  # and of their times
        self._variance = 0.0  # of the rows, times the weight
        self._covariance = 0.0  # of both, times the weight

    def least_chance(self, num_rows: int) -> float:
        """How likely a draft must be right, beside so many sequences, to be worth its time; above 1 for none."""
        if not self._weight:
            return 2.0  # the first step is to show what it takes without any
        step_s, row_s = self._expected(num_rows)
        return _GAIN * row_s * num_rows / step_s

    def best_number(self, num_rows: int, chances: abc.Sequence[float]) -> int:
        """How many drafts, the likeliest first, promise most tokens a second beside so many sequences.

        `chances` fall: how likely each is to be right. As long as only one number of rows is known, there are at most
        as many drafts as sequences.
        """
        step_s, row_s = self._expected(num_rows)
        tokens = float(num_rows)
        most = len(chances) if self._variance else min(len(chances), num_rows)
        for number, chance in enumerate(chances[:most]):
            if chance <= _GAIN * row_s * tokens / step_s:
                return number
            tokens += chance
            step_s += row_s
        return most

    def record(self, num_rows: int, seconds: float) -> None:
        """Take note of a step of so many sequences and drafts."""
        seconds = max(seconds, _LEAST_S)
        if self._weight:
            seconds = min(seconds, _MOST_LONGER * max(self._expected(num_rows)[0], self._seconds))
        self._weight = _MEMORY * self._weight + 1
        rows_off, seconds_off = num_rows - self._rows, seconds - self._seconds
        self._rows += rows_off / self._weight
        self._seconds += seconds_off / self._weight
        self._variance = _MEMORY * self._variance + rows_off * (num_rows - self._rows)
        self._covariance = _MEMORY * self._covariance + rows_off * (seconds - self._seconds)

    def _expected(self, num_rows: int) -> tuple[float, float]:
        """What a step of so many rows takes, and what one more takes beside them."""
        row_s = max(self._covariance / max(self._variance, _KNOWN), 0.0)
        step_s = max(self._seconds + row_s * (num_rows - self._rows), _LEAST_S)
        return step_s, min(row_s, _MOST_SHARE * step_s / num_rows)
