"""The measured time of decoding steps by number of rows, and the number of drafts that pays."""

from __future__ import annotations

from collections import abc

_GAIN = 1.15  # times what drafts cost, what they must promise
_MOST_SHARE = 0.8  # of a row's average time, what one more row is taken to cost at the most: so the surest are tried
_MEMORY = 0.99  # of earlier steps, with each step
_MOST_LONGER = 1.5  # times what was expected, as far as one step is believed: other work on the machine passes
_LEAST_S = 1e-6  # of a step
# Of a variance, times the weight: with less, few steps differed, or long ago, and what they took is believed the less.
# Else one step that other work fell on could end all drafts, since without any nothing shows what one takes.
_KNOWN = 0.5


class RowTimes:
    """The times of one engine's steps without prompts: so much, so much more for having drafts, and for each row.

    A row is a sequence's next token, or a draft. Recent steps count most, so that the line fits the numbers of rows
    that are usual now. Times in seconds.
    """

    def __init__(self) -> None:
        self._weight = 0.0  # of all steps, as they are remembered
        self._rows = 0.0  # the mean of their rows,
        self._drafting = 0.0  # of whether they had drafts,
        self._seconds = 0.0  # and of their times
        # Sums of products of what they are off their means, as they are remembered.
        self._rows_rows = self._rows_drafting = self._drafting_drafting = 0.0
        self._rows_seconds = self._drafting_seconds = 0.0
        self._row_s = self._drafts_s = 0.0  # the line that fits best: for each row, and for having drafts

    def step_s(self, num_rows: int) -> float:
        """How long a step of so many rows takes without drafts."""
        return self._expected(num_rows)[0]

    def least_chance(self, num_rows: int) -> float:
        """How likely a draft must be right, beside so many sequences, to be worth its row; above 1 for none."""
        if not self._weight:
            return 2.0  # the first step is to show what it takes without any
        step_s, row_s = self._expected(num_rows)
        return _GAIN * row_s * num_rows / step_s

    def best_number(self, num_rows: int, chances: abc.Sequence[float]) -> int:
        """How many drafts, the likeliest first, promise most tokens a second beside so many sequences.

        `chances` fall: how likely each is to be right. As long as only one number of rows is known, there are at most
        as many drafts as sequences.
        """
        plain_s, row_s = self._expected(num_rows)
        tokens, step_s = float(num_rows), plain_s + _GAIN * self._drafts_s
        number = 0
        most = len(chances) if self._rows_rows else min(len(chances), num_rows)
        for chance in chances[:most]:
            if chance * step_s <= _GAIN * row_s * tokens:
                break
            number += 1
            tokens += chance
            step_s += _GAIN * row_s
        return number if tokens * plain_s > num_rows * step_s else 0

    def record(self, num_sequences: int, num_drafts: int, seconds: float, *, num_unseen: int = 0) -> None:
        """Take note of a step of so many sequences and drafts, and that others were before it."""
        num_rows, drafting = num_sequences + num_drafts, float(num_drafts > 0)
        seconds = max(seconds, _LEAST_S)
        if self._weight:
            expected_s = self._expected(num_rows)[0] + drafting * self._drafts_s
            seconds = min(seconds, _MOST_LONGER * max(expected_s, self._seconds))
        memory = _MEMORY ** (1 + num_unseen)
        self._weight = memory * self._weight + 1
        rows_off, drafting_off = num_rows - self._rows, drafting - self._drafting
        seconds_off = seconds - self._seconds
        self._rows += rows_off / self._weight
        self._drafting += drafting_off / self._weight
        self._seconds += seconds_off / self._weight
        left = seconds - self._seconds
        self._rows_rows = memory * self._rows_rows + rows_off * (num_rows - self._rows)
        self._rows_drafting = memory * self._rows_drafting + rows_off * (drafting - self._drafting)
        self._drafting_drafting = memory * self._drafting_drafting + drafting_off * (drafting - self._drafting)
        self._rows_seconds = memory * self._rows_seconds + rows_off * left
        self._drafting_seconds = memory * self._drafting_seconds + drafting_off * left
        self._fit()

    def _fit(self) -> None:
        """Draw the line: by least squares, with nothing below 0."""
        rows, both = max(self._rows_rows, _KNOWN), self._rows_drafting
        drafting = self._drafting_drafting + _KNOWN
        divisor = rows * drafting - both * both
        row_s = (self._rows_seconds * drafting - self._drafting_seconds * both) / divisor
        drafts_s = (self._drafting_seconds * rows - self._rows_seconds * both) / divisor
        if row_s < 0:
            row_s, drafts_s = 0.0, self._drafting_seconds / drafting
        elif drafts_s < 0:
            row_s, drafts_s = self._rows_seconds / rows, 0.0
        self._row_s, self._drafts_s = max(row_s, 0.0), max(drafts_s, 0.0)

    def _expected(self, num_rows: int) -> tuple[float, float]:
        """What a step of so many rows takes without drafts, and what one more takes beside them."""
        plain_s = self._seconds - self._drafting * self._drafts_s + self._row_s * (num_rows - self._rows)
        plain_s = max(plain_s, _LEAST_S)
        return plain_s, min(self._row_s, _MOST_SHARE * plain_s / num_rows)
