"""Which tokens a step computes ahead, as drafts: guesses that the draws of the same step confirm or refuse.

A draw depends on a sequence's seed and on the token's index only, so a draft is right exactly if it is what is drawn,
and an answer is the same with drafts and without. How many are worth their time is measured.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, abc
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter, mul
from typing import Protocol

from service.engine.prompt_lookup import PromptLookup
from service.engine.sequence import Sequence

_MOST = 16  # drafts of a sequence in one step
# How likely a token is of which nothing is known, and how many tried ones that is worth: one that an output constraint
# leaves hardly a choice of, and one that is guessed.
_FORCED, _FORCED_WEIGHT = 0.97, 4.0
_GUESSED, _GUESSED_WEIGHT = 0.5, 1.0
_MEMORY = 0.9  # of what was tried before, what stays with the next try
_MEMORY_OF_IDLE = 0.98  # the same with a step without drafts, so that what didn't pay is tried again, if rarely
_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)  # rows of steps that are told apart
_GAIN = 1.02  # what drafts must promise over none
_MAX_DRAFTED_STEPS = 32  # in a row, before one without drafts shows again what that takes
_MEMORY_OF_SHORTER = 0.9  # of a step's known time when it takes longer now: other work on the machine passes
_MEMORY_OF_LONGER = 0.5
_LEAST_S = 1e-6  # of a step


class Drafter(Protocol):
    """A source of guesses. Only the engine's thread calls it."""

    def guess(self, sequence: Sequence, after: list[int], most: int) -> list[int]:
        """At most `most` tokens that may follow the sequence's and those of `after`."""

    def release(self, sequence: Sequence) -> None:
        """Forget what is kept for a sequence, if anything."""


class PromptDrafter:
    """Guesses from each sequence's own prompt and answer."""

    def __init__(self) -> None:
        self._lookups: dict[Sequence, PromptLookup] = {}

    def guess(self, sequence: Sequence, after: list[int], most: int) -> list[int]:
        """What followed the last tokens where they stood before."""
        lookup = self._lookups.get(sequence)
        if lookup is None:
            lookup = self._lookups[sequence] = PromptLookup()
        return lookup.guess(sequence.token_ids, after, most)

    def release(self, sequence: Sequence) -> None:
        """Forget a sequence's places; they are found anew if it comes back."""
        self._lookups.pop(sequence, None)


class _Record:
    """How one sequence's guesses of one source have fared; the older the less it counts."""

    def __init__(self, prior: float, weight: float) -> None:
        """`prior` is how likely a guess is of which nothing is known, `weight` how many tried ones that is worth."""
        self._prior = prior * weight
        self._weight = weight
        self._num_right = 0.0
        self._num_tried = 0.0

    @property
    def chance(self) -> float:
        return (self._num_right + self._prior) / (self._num_tried + self._weight)

    def note(self, *, is_right: bool) -> None:
        self._num_right = _MEMORY * self._num_right + is_right
        self._num_tried = _MEMORY * self._num_tried + 1

    def fade(self) -> None:
        self._num_right *= _MEMORY_OF_IDLE
        self._num_tried *= _MEMORY_OF_IDLE


class _History:
    """One sequence's guesses, by their source."""

    def __init__(self) -> None:
        self.forced = _Record(_FORCED, _FORCED_WEIGHT)
        self.guessed = _Record(_GUESSED, _GUESSED_WEIGHT)


@dataclass(frozen=True, slots=True)
class _Draft:
    token_ids: list[int]
    records: list[_Record]  # of each token's source

    def chances(self) -> abc.Iterator[float]:
        """How likely each token is to be right, which those before it must be too."""
        return accumulate((record.chance for record in self.records), mul)


class Speculation:
    """Drafts for the sequences of one engine, and what became of them."""

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter
        self._histories: dict[Sequence, _History] = {}
        self._drafts: dict[Sequence, _Draft] = {}  # of the step in the making
        self._times = RowTimes()

    def drafts(self, sequences: abc.Sequence[Sequence], most: int) -> dict[Sequence, list[int]]:
        """What to compute beyond the one token that each of the sequences lacks, at most `most` tokens in all.

        They are as many as promise the most tokens a second, by the guesses' chances and the steps' times.
        """
        self._drafts = {}
        if self._times.wants_plain_step(len(sequences)):
            return {}
        found = {sequence: draft for sequence in sequences if (draft := self._draft(sequence))}
        ranked = [(chance, sequence) for sequence, draft in found.items() for chance in draft.chances()]
        ranked.sort(key=itemgetter(0), reverse=True)
        chances = [chance for chance, _ in ranked[:most]]
        counts = Counter(sequence for _, sequence in ranked[: self._times.best_number(len(sequences), chances)])
        for sequence in sequences:
            if sequence not in counts:
                self._history(sequence).guessed.fade()
        self._drafts = {sequence: found[sequence] for sequence in counts}
        return {sequence: found[sequence].token_ids[:count] for sequence, count in counts.items()}

    def note(self, sequence: Sequence, num_drafts: int, num_right: int) -> None:
        """Learn how many of the drafts that the step computed for a sequence were right."""
        for index, record in enumerate(self._drafts[sequence].records[: min(num_drafts, num_right + 1)]):
            record.note(is_right=index < num_right)

    def record_step_time(self, num_sequences: int, num_drafts: int, seconds: float) -> None:
        """Learn how long a step took that computed no prompt."""
        self._times.record(num_sequences, num_drafts, seconds)

    def release(self, sequence: Sequence) -> None:
        """Forget a sequence: it has ended, or it was preempted and will be computed again."""
        self._histories.pop(sequence, None)
        self._drafter.release(sequence)

    def _draft(self, sequence: Sequence) -> _Draft | None:
        most = min(_MOST, sequence.max_tokens - sequence.num_generated_tokens - 1)
        if most <= 0:
            return None
        forced = sequence.forced_tokens()[:most]
        guessed = self._drafter.guess(sequence, forced, most - len(forced))
        history = self._history(sequence)
        records = [history.forced] * len(forced) + [history.guessed] * len(guessed)
        return _Draft(forced + guessed, records) if records else None

    def _history(self, sequence: Sequence) -> _History:
        history = self._histories.get(sequence)
        if history is None:
            history = self._histories[sequence] = _History()
        return history


class RowTimes:
    """How long steps take that decode, by the number of their rows: sequences and drafts."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}  # by the size, of _SIZES, that holds the rows
        self._largest = 0  # size that was ever timed
        self._num_drafted = 0  # steps since the last without drafts

    def wants_plain_step(self, num_rows: int) -> bool:
        """Whether a step of so many sequences must be timed without drafts before it can be judged with them."""
        size = _size(num_rows)
        return size not in self._seconds or self._num_drafted >= _MAX_DRAFTED_STEPS

    def best_number(self, num_rows: int, chances: abc.Sequence[float]) -> int:
        """How many drafts, the likeliest first, promise most tokens a second beside `num_rows` sequences.

        `chances` fall. Sizes that were never timed are taken to cost no more than the next smaller one, so that they
        are tried, but only up to twice the largest that was timed.
        """
        best, most = 0, _GAIN * num_rows / self._expected(num_rows)
        tokens, done = float(num_rows), 0
        for size in _SIZES[bisect_left(_SIZES, num_rows) :]:
            num_drafts = min(size - num_rows, len(chances))
            tokens += sum(chances[done:num_drafts])
            done = num_drafts
            speed = tokens / self._expected(num_rows + num_drafts)
            if speed > most:
                best, most = num_drafts, speed
            if num_drafts == len(chances) or size >= 2 * self._largest:
                break
        return best

    def record(self, num_rows: int, num_drafts: int, seconds: float) -> None:
        """Take note of a step."""
        size = _size(num_rows + num_drafts)
        seconds = max(seconds, _LEAST_S)
        known = self._seconds.get(size, seconds)
        memory = _MEMORY_OF_SHORTER if known < seconds else _MEMORY_OF_LONGER
        self._seconds[size] = memory * known + (1 - memory) * seconds
        self._largest = max(self._largest, size)
        self._num_drafted = self._num_drafted + 1 if num_drafts else 0

    def _expected(self, num_rows: int) -> float:
        size = _size(num_rows)
        known = [each for each in self._seconds if each <= size]
        return self._seconds[max(known)] if known else min(self._seconds.values())


def _size(num_rows: int) -> int:
    return _SIZES[min(bisect_left(_SIZES, num_rows), len(_SIZES) - 1)]
