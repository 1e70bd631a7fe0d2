"""Speculative decoding: the drafts that a step computes, and the record of those that were accepted.

A draw depends only on the sequence's seed and the token's index. A draft is accepted if and only if it equals the drawn
token, so an answer is the same with and without drafts. The number of drafts follows from measured step times.
"""

from __future__ import annotations

import time
from collections import Counter, abc
from itertools import accumulate
from operator import itemgetter, mul

from service.engine.core.drafts.drafter import Drafter, DraftRequest
from service.engine.core.drafts.row_times import RowTimes
from service.engine.core.sequences.sequence import Sequence

MAX_DRAFTS = 16  # per sequence and step
_MAX_STEP_DRAFTS = 128  # per step: each takes a row of logits as large as the vocabulary
# The prior probability that a draft is accepted, and its weight in observations: of tokens that an output constraint
# (nearly) forces, and of the drafter's proposals.
_FORCED, _FORCED_WEIGHT = 0.97, 4.0
_PROPOSED, _PROPOSED_WEIGHT = 0.8, 2.0
# The weight of earlier observations after each new one, and after a step without drafts, so that a source that failed
# is tried again from time to time. A new sequence starts with the record of all sequences.
_MEMORY, _MEMORY_OF_ALL = 0.9, 0.99
_MEMORY_OF_IDLE, _MEMORY_OF_ALL_IDLE = 0.985, 0.9995
_MAX_FAILED = 4  # searches without a draft; then searches pause, so that they take at most this share of the time
_MAX_SEARCH_SHARE = 0.005
_MAX_PAUSE = 15  # steps


class _Record:
    """The acceptance record of the drafts of one source, with decaying weights."""

    def __init__(self, prior: float, weight: float, of_all: _Record | None = None) -> None:
        """`prior` is the probability before any observation, and `weight` its weight in observations.

        `of_all` is the record of this source for all sequences.
        """
        self._prior = prior * weight
        self._weight = weight
        self._of_all = of_all
        self._memory, self._memory_of_idle = (
            (_MEMORY, _MEMORY_OF_IDLE) if of_all else (_MEMORY_OF_ALL, _MEMORY_OF_ALL_IDLE)
        )
        self._num_accepted = 0.0
        self._num_tried = 0.0
        self.probability = prior

    def add(self, *, is_accepted: bool) -> None:
        self._update(self._memory, is_accepted=is_accepted, num_tried=1)
        if self._of_all:
            self._of_all.add(is_accepted=is_accepted)

    def decay(self) -> None:
        self._update(self._memory_of_idle, is_accepted=False, num_tried=0)

    def _update(self, memory: float, *, is_accepted: bool, num_tried: int) -> None:
        self._num_accepted = memory * self._num_accepted + is_accepted
        self._num_tried = memory * self._num_tried + num_tried
        self.probability = (self._num_accepted + self._prior) / (self._num_tried + self._weight)


class _History:
    """One sequence's acceptance records, by the source of drafts."""

    def __init__(self, forced: _Record, proposed: _Record) -> None:
        """`forced` and `proposed` are the records of all sequences."""
        self.forced = _Record(forced.probability, _FORCED_WEIGHT, forced)
        self.proposed = _Record(proposed.probability, _PROPOSED_WEIGHT, proposed)

    def records(self, num_forced: int, num_proposed: int) -> list[_Record]:
        return [self.forced] * num_forced + [self.proposed] * num_proposed


class Speculation:
    """Chooses the drafts of one engine's sequences, and records which were accepted."""

    def __init__(self, drafter: Drafter, clock: abc.Callable[[], float] = time.perf_counter) -> None:
        self._drafter = drafter
        self._clock = clock
        self._histories: dict[Sequence, _History] = {}
        self._forced = _Record(_FORCED, _FORCED_WEIGHT)  # of all sequences
        self._proposed = _Record(_PROPOSED, _PROPOSED_WEIGHT)  # of all sequences
        self._records: dict[Sequence, list[_Record]] = {}  # the record of each token drafted for the next step
        self._times = RowTimes()
        self._num_failed = 0  # searches without a draft since the last accepted one
        self._num_skipped = 0  # steps without a search since the last recorded one
        self._pause = 0  # steps to skip before the next search: a small model's step is shorter than a search

    def is_paused(self) -> bool:
        """Count down the pause after failed searches. Return whether the next step has no drafts because of it."""
        if not self._pause:
            return False
        self._pause -= 1
        self._num_skipped += 1
        return True

    def drafts(
        self, sequences: abc.Sequence[Sequence], most: int, capacity: abc.Callable[[Sequence], int]
    ) -> dict[Sequence, list[int]]:
        """Return the drafts to compute in a step in which each of the sequences computes one token.

        `most` bounds the number of all drafts together; `capacity` returns how many drafts a sequence's blocks hold.
        The number of drafts maximises the expected tokens per second, given their probabilities and the measured step
        times.
        """
        began = self._clock()
        self._records = {}
        drafts = self._search(sequences, most, capacity)
        for sequence in sequences:
            if sequence not in drafts and sequence in self._histories:
                self._histories[sequence].proposed.decay()
        if not drafts:
            self._proposed.decay()
            self._num_failed += 1
            if self._num_failed >= _MAX_FAILED:
                share = (self._clock() - began) / self._times.step_s(len(sequences))
                self._pause = min(int(share / _MAX_SEARCH_SHARE), _MAX_PAUSE)
        return drafts

    def _search(
        self, sequences: abc.Sequence[Sequence], most: int, capacity: abc.Callable[[Sequence], int]
    ) -> dict[Sequence, list[int]]:
        """Return the drafts that pay off at this number of sequences, within `most` tokens and `capacity`."""
        least = self._times.min_probability(len(sequences))
        if least > 1:
            return {}
        requests = [each for sequence in sequences if (each := self._request_for(sequence, least))]
        if self._drafter.is_costly:
            requests = [
                each._replace(most=min(each.most, capacity(each.sequence) - len(each.after))) for each in requests
            ]
            limits = {each.sequence: (len(each.after), each.most) for each in requests}
            counts = self._best(limits, len(sequences), most)
            requests = [each._replace(most=counts[each.sequence] - len(each.after)) for each in requests]
        nonempty = [each for each in requests if each.most > 0]
        proposals = dict(zip((each.sequence for each in nonempty), self._drafter.propose(nonempty), strict=True))
        found = {each.sequence: (each.after, proposals.get(each.sequence, [])) for each in requests}
        sizes = {
            sequence: (len(after), len(proposal)) for sequence, (after, proposal) in found.items() if after or proposal
        }
        drafts: dict[Sequence, list[int]] = {}
        for sequence, count in self._best(sizes, len(sequences), most).items() if sizes else ():
            after, proposal = found[sequence]
            drafts[sequence] = (after + proposal)[: min(count, capacity(sequence))]
            self._records[sequence] = self._histories[sequence].records(*sizes[sequence])
        return drafts

    def record(self, sequence: Sequence, num_drafts: int, num_accepted: int) -> None:
        """Record the number of accepted drafts among the `num_drafts` that the step computed for a sequence."""
        if num_accepted:
            self._num_failed = 0
        for index, record in enumerate(self._records[sequence][: min(num_drafts, num_accepted + 1)]):
            record.add(is_accepted=index < num_accepted)

    def record_step_time(self, num_sequences: int, num_drafts: int, seconds: float) -> None:
        """Record the duration of a step without prompt tokens, in seconds."""
        if not self._pause:
            self._times.record(num_sequences, num_drafts, seconds, num_unseen=self._num_skipped)
            self._num_skipped = 0

    def release(self, sequence: Sequence) -> None:
        """Drop the state of a sequence that has ended, or was preempted and will be computed again."""
        self._histories.pop(sequence, None)
        self._drafter.release(sequence)

    def _request_for(self, sequence: Sequence, least: float) -> DraftRequest | None:
        """Return the forced tokens and the number of proposals to request, or None if there is neither."""
        history = self._histories.get(sequence)
        if history is None:
            history = self._histories[sequence] = _History(self._forced, self._proposed)
        most = min(MAX_DRAFTS, sequence.max_tokens - sequence.num_generated_tokens - 1)
        forced = sequence.forced_tokens()[:most] if sequence.constraint is not None else []
        most = most - len(forced) if history.proposed.probability >= least else 0
        return DraftRequest(sequence, forced, most) if forced or most > 0 else None

    def _best(self, sizes: abc.Mapping[Sequence, tuple[int, int]], num_rows: int, most: int) -> Counter[Sequence]:
        """Return the number of drafts to compute per sequence. `sizes` has the numbers of forced and proposed ones."""
        ranked = [
            (probability, sequence)
            for sequence, numbers in sizes.items()
            # A draft is accepted only if all drafts before it are.
            for probability in accumulate(
                (each.probability for each in self._histories[sequence].records(*numbers)), mul
            )
        ]
        ranked.sort(key=itemgetter(0), reverse=True)
        probabilities = [probability for probability, _ in ranked[: min(most, _MAX_STEP_DRAFTS)]]
        num_drafts = self._times.best_number(num_rows, probabilities) if probabilities else 0
        return Counter(sequence for _, sequence in ranked[:num_drafts])
