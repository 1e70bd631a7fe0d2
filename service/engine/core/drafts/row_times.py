"""The measured time of decoding steps by number of rows, and the number of drafts that pays off."""

from __future__ import annotations

from collections import abc

_MIN_GAIN = 1.15  # the least expected gain of drafts, as a multiple of their cost
_MAX_SHARE = 0.8  # upper bound for the cost of one more row, per average time of a row: likely drafts are always tried
_MEMORY = 0.99  # weight of earlier steps after each step
_MAX_EXCESS = 1.5  # a step counts as at most this many times its expected time: other work on the machine is transient
_MIN_S = 1e-6  # of a step
# Added to variances. If few steps differed, or long ago, their measured differences count less; otherwise one step
# that other work delayed could end all drafts, and without drafts nothing would measure their cost again.
_PRIOR_VARIANCE = 0.5


class RowTimes:
    """A linear model of the time of one engine's steps without prompts: a constant, drafting at all, and each row.

    A row is a sequence's next token, or a draft. Recent steps have the most weight, so that the model fits the present
    numbers of rows. Times are in seconds.
    """

    def __init__(self) -> None:
        # Weighted statistics of the steps: the total weight; the means of the number of rows, of whether there were
        # drafts, and of the time; and the sums of products of the deviations from these means.
        self._weight = 0.0
        self._rows = 0.0
        self._drafting = 0.0
        self._seconds = 0.0
        self._rows_rows = self._rows_drafting = self._drafting_drafting = 0.0
        self._rows_seconds = self._drafting_seconds = 0.0
        self._row_s = self._drafts_s = 0.0  # the fitted coefficients: of each row, and of drafting at all

    def step_s(self, num_rows: int) -> float:
        """Return the expected time of a step of `num_rows` rows without drafts."""
        return self._expected(num_rows)[0]

    def min_probability(self, num_rows: int) -> float:
        """Return the lowest probability at which a draft is worth its row in a step of `num_rows` sequences.

        If it is above 1, no draft is worth its row.
        """
        if not self._weight:
            return 2.0  # the first step measures the time without drafts
        step_s, row_s = self._expected(num_rows)
        return _MIN_GAIN * row_s * num_rows / step_s

    def best_number(self, num_rows: int, probabilities: abc.Sequence[float]) -> int:
        """Return the number of drafts that maximises the expected tokens per second with `num_rows` sequences.

        `probabilities` are those of the drafts' acceptance, in descending order. While only one number of rows was
        measured, there are at most as many drafts as sequences.
        """
        plain_s, row_s = self._expected(num_rows)
        tokens, step_s = float(num_rows), plain_s + _MIN_GAIN * self._drafts_s
        number = 0
        most = len(probabilities) if self._rows_rows else min(len(probabilities), num_rows)
        for probability in probabilities[:most]:
            if probability * step_s <= _MIN_GAIN * row_s * tokens:
                break
            number += 1
            tokens += probability
            step_s += _MIN_GAIN * row_s
        return number if tokens * plain_s > num_rows * step_s else 0

    def record(self, num_sequences: int, num_drafts: int, seconds: float, *, num_unseen: int = 0) -> None:
        """Record a step. `num_unseen` is the number of steps before it that were not recorded."""
        num_rows, drafting = num_sequences + num_drafts, float(num_drafts > 0)
        seconds = max(seconds, _MIN_S)
        if self._weight:
            expected_s = self._expected(num_rows)[0] + drafting * self._drafts_s
            seconds = min(seconds, _MAX_EXCESS * max(expected_s, self._seconds))
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
        """Fit the coefficients by least squares, with none below 0."""
        rows, both = max(self._rows_rows, _PRIOR_VARIANCE), self._rows_drafting
        drafting = self._drafting_drafting + _PRIOR_VARIANCE
        divisor = rows * drafting - both * both
        row_s = (self._rows_seconds * drafting - self._drafting_seconds * both) / divisor
        drafts_s = (self._drafting_seconds * rows - self._rows_seconds * both) / divisor
        if row_s < 0:
            row_s, drafts_s = 0.0, self._drafting_seconds / drafting
        elif drafts_s < 0:
            row_s, drafts_s = self._rows_seconds / rows, 0.0
        self._row_s, self._drafts_s = max(row_s, 0.0), max(drafts_s, 0.0)

    def _expected(self, num_rows: int) -> tuple[float, float]:
        """Return the time of a step of `num_rows` rows without drafts, and the time that one more row adds."""
        plain_s = self._seconds - self._drafting * self._drafts_s + self._row_s * (num_rows - self._rows)
        plain_s = max(plain_s, _MIN_S)
        return plain_s, min(self._row_s, _MAX_SHARE * plain_s / num_rows)
