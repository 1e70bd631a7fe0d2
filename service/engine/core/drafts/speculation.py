"""Speculative decoding: which drafts a step computes, and which of them the same step's draws confirm.

A draw depends on a sequence's seed and on the token's index only, so a draft is right exactly if it is what is drawn,
and an answer is the same with drafts and without. How many are worth their time is measured.
"""

from __future__ import annotations

import time
from collections import Counter, abc
from itertools import accumulate
from operator import itemgetter, mul

from service.engine.core.drafts.drafter import Drafter, DraftRequest
from service.engine.core.drafts.row_times import RowTimes
from service.engine.core.sequences.sequence import Sequence

MAX_DRAFTS = 16  # of a sequence in one step
_MAX_STEP_DRAFTS = 128  # of all: each takes a row of logits, as large as the vocabulary
# How likely a token is to be right, as long as nothing is known, and how many tried ones that is worth: one that an
# output constraint leaves hardly a choice of, and one that is guessed.
_FORCED, _FORCED_WEIGHT = 0.97, 4.0
_GUESSED, _GUESSED_WEIGHT = 0.8, 2.0
# What stays of what was tried before: with the next try, and with a step without drafts, so that what didn't pay is
# tried again, if rarely. All sequences together make the first opinion of a new one.
_MEMORY, _MEMORY_OF_ALL = 0.9, 0.99
_MEMORY_OF_IDLE, _MEMORY_OF_ALL_IDLE = 0.985, 0.9995
_MANY_VAIN = 4  # looks: after so many others come at intervals at which they take this share of the time
_MOST_LOOKING = 0.005
_MOST_PAUSE = 15  # steps


class _Record:
    """How the guesses of one source have fared; the older the less it counts."""

    def __init__(self, prior: float, weight: float, of_all: _Record | None = None) -> None:
        """`prior` is how likely a guess is of which nothing is known, `weight` how many tried ones that is worth.

        `of_all` is the record of all sequences' guesses of this source.
        """
        self._prior = prior * weight
        self._weight = weight
        self._of_all = of_all
        self._memory, self._memory_of_idle = (
            (_MEMORY, _MEMORY_OF_IDLE) if of_all else (_MEMORY_OF_ALL, _MEMORY_OF_ALL_IDLE)
        )
        self._num_right = 0.0
        self._num_tried = 0.0
        self.chance = prior

    def note(self, *, is_right: bool) -> None:
        self._change(self._memory, is_right=is_right, num_tried=1)
        if self._of_all:
            self._of_all.note(is_right=is_right)

    def fade(self) -> None:
        self._change(self._memory_of_idle, is_right=False, num_tried=0)

    def _change(self, memory: float, *, is_right: bool, num_tried: int) -> None:
        self._num_right = memory * self._num_right + is_right
        self._num_tried = memory * self._num_tried + num_tried
        self.chance = (self._num_right + self._prior) / (self._num_tried + self._weight)


class _History:
    """One sequence's guesses, by their source."""

    def __init__(self, forced: _Record, guessed: _Record) -> None:
        """The records of all sequences."""
        self.forced = _Record(forced.chance, _FORCED_WEIGHT, forced)
        self.guessed = _Record(guessed.chance, _GUESSED_WEIGHT, guessed)

    def records(self, num_forced: int, num_guessed: int) -> list[_Record]:
        return [self.forced] * num_forced + [self.guessed] * num_guessed


class Speculation:
    """Drafts for the sequences of one engine, and what became of them."""

    def __init__(self, drafter: Drafter, clock: abc.Callable[[], float] = time.perf_counter) -> None:
        self._drafter = drafter
        self._clock = clock
        self._histories: dict[Sequence, _History] = {}
        self._forced = _Record(_FORCED, _FORCED_WEIGHT)  # of all sequences, as the next
        self._guessed = _Record(_GUESSED, _GUESSED_WEIGHT)
        self._records: dict[Sequence, list[_Record]] = {}  # of each token drafted for the step in the making
        self._times = RowTimes()
        self._num_vain = 0  # looks that brought no draft since the last right one,
        self._rested = 0  # steps that were let pass since,
        self._pause = 0  # and steps to let pass before the next: a small model's step is short

    def rests(self) -> bool:
        """Whether the next step has no drafts, since looking for some has been in vain."""
        if not self._pause:
            return False
        self._pause -= 1
        self._rested += 1
        return True

    def drafts(
        self, sequences: abc.Sequence[Sequence], most: int, room: abc.Callable[[Sequence], int]
    ) -> dict[Sequence, list[int]]:
        """What to compute beyond the one token that each of the sequences lacks.

        `most` is the bound of all drafts together, `room` finds how many a sequence's blocks hold. They are as many as
        promise the most tokens a second, by the guesses' chances and the steps' times.
        """
        began = self._clock()
        self._records = {}
        drafts = self._look(sequences, most, room)
        for sequence in sequences:
            if sequence not in drafts and sequence in self._histories:
                self._histories[sequence].guessed.fade()
        if not drafts:
            self._guessed.fade()
            self._num_vain += 1
            if self._num_vain >= _MANY_VAIN:
                share = (self._clock() - began) / self._times.step_s(len(sequences))
                self._pause = min(int(share / _MOST_LOOKING), _MOST_PAUSE)
        return drafts

    def _look(
        self, sequences: abc.Sequence[Sequence], most: int, room: abc.Callable[[Sequence], int]
    ) -> dict[Sequence, list[int]]:
        least = self._times.least_chance(len(sequences))
        if least > 1:
            return {}
        wanted = [each for sequence in sequences if (each := self._wanted(sequence, least))]
        if self._drafter.is_costly:
            wanted = [each._replace(most=min(each.most, room(each.sequence) - len(each.after))) for each in wanted]
            hopes = {each.sequence: (len(each.after), each.most) for each in wanted}
            counts = self._best(hopes, len(sequences), most)
            wanted = [each._replace(most=counts[each.sequence] - len(each.after)) for each in wanted]
        asked = [each for each in wanted if each.most > 0]
        guesses = dict(zip((each.sequence for each in asked), self._drafter.guess(asked), strict=True))
        found = {each.sequence: (each.after, guesses.get(each.sequence, [])) for each in wanted}
        sizes = {sequence: (len(after), len(guess)) for sequence, (after, guess) in found.items() if after or guess}
        drafts: dict[Sequence, list[int]] = {}
        for sequence, count in self._best(sizes, len(sequences), most).items() if sizes else ():
            after, guess = found[sequence]
            drafts[sequence] = (after + guess)[: min(count, room(sequence))]
            self._records[sequence] = self._histories[sequence].records(*sizes[sequence])
        return drafts

    def note(self, sequence: Sequence, num_drafts: int, num_right: int) -> None:
        """Learn how many of the drafts that the step computed for a sequence were right."""
        if num_right:
            self._num_vain = 0
        for index, record in enumerate(self._records[sequence][: min(num_drafts, num_right + 1)]):
            record.note(is_right=index < num_right)

    def record_step_time(self, num_sequences: int, num_drafts: int, seconds: float) -> None:
        """Learn how long a step took that computed no prompt."""
        if not self._pause:
            self._times.record(num_sequences, num_drafts, seconds, num_unseen=self._rested)
            self._rested = 0

    def release(self, sequence: Sequence) -> None:
        """Forget a sequence: it has ended, or it was preempted and will be computed again."""
        self._histories.pop(sequence, None)
        self._drafter.release(sequence)

    def _wanted(self, sequence: Sequence, least: float) -> DraftRequest | None:
        """What to ask for: tokens after those that the constraint forces, if guesses are likely enough to be right."""
        history = self._histories.get(sequence)
        if history is None:
            history = self._histories[sequence] = _History(self._forced, self._guessed)
        most = min(MAX_DRAFTS, sequence.max_tokens - sequence.num_generated_tokens - 1)
        forced = sequence.forced_tokens()[:most] if sequence.constraint is not None else []
        most = most - len(forced) if history.guessed.chance >= least else 0
        return DraftRequest(sequence, forced, most) if forced or most > 0 else None

    def _best(self, sizes: abc.Mapping[Sequence, tuple[int, int]], num_rows: int, most: int) -> Counter[Sequence]:
        """How many drafts of each sequence to compute, of so many forced and so many guessed ones."""
        ranked = [
            (chance, sequence)
            for sequence, numbers in sizes.items()
            # Those before it must be right too.
            for chance in accumulate((each.chance for each in self._histories[sequence].records(*numbers)), mul)
        ]
        ranked.sort(key=itemgetter(0), reverse=True)
        chances = [chance for chance, _ in ranked[: min(most, _MAX_STEP_DRAFTS)]]
        num_drafts = self._times.best_number(num_rows, chances) if chances else 0
        return Counter(sequence for _, sequence in ranked[:num_drafts])
