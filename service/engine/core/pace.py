"""The pace of a step: the sequences that decode in it, and those that yield to others.

Requests of batches yield to all others, see `batch_pace`. Among those, two kinds of sequences are protected: those of a
service level that a longer step would violate, and those of API keys that use far less than their share. A step with
protected sequences computes others only in the time that is left: until the first of the protected tokens is due, or as
much as small keys allow to others.
"""

from __future__ import annotations

import math
from collections import abc
from operator import attrgetter

from service.engine.core.queue.fair_queue import FairQueue, KeyQueue
from service.engine.core.sequences.sequence import Sequence
from service.engine.core.step import Step
from service.engine.core.step_times import StepTimes
from service.engine.interface.config import EngineConfig

# Others may always prolong the steps of small keys by this part, so that they don't starve. It is saved up.
_GRANT = 0.25
_MAX_SAVED_S = 0.25  # or the time of two decodes or of the smallest chunk, if that is longer
MIN_OTHER_CHUNK = 16  # tokens of others' prompts in a step
_HORIZON_STEPS = 2.0  # a token is protected if it is due within this many steps of all decodes, and a prompt
_MAX_LATE_SHARE = 0.5  # a limit per token is given up if this share of it can't make up for the delay
# A key may receive this many tokens more than others, or those of this time, before it counts as served more.
_CREDIT_TOKENS = 1024.0
_CREDIT_S = 2.0
_NEW_WEIGHT = 0.03  # of the newest step in the average rate
_by_last_step = attrgetter("last_paced_step")


class StepChoice:
    """The decodes of one step: `rows` are computed in it, `held` are not."""

    def __init__(self, protected: list[Sequence], held: list[Sequence], first: abc.Callable[[Sequence], bool]) -> None:
        self.rows = list(protected)
        self.held = held
        self.num_protected = len(protected)
        self.prompts_s = math.inf  # the time that prompts may add to the step
        self.others_s = math.inf  # the time that prompts of others may add to the step
        self.num_other_tokens = 0  # of prompts of others in the step
        self.with_batches = True  # whether batches may be computed in the time of others
        self.is_first = first  # returns whether a sequence's prompt is computed before those of others


class Pace:
    """Chooses the decodes of one engine's steps by their measured times. It belongs to the scheduler."""

    def __init__(self, times: StepTimes, queue: FairQueue, config: EngineConfig) -> None:
        self._times = times
        self._queue = queue
        self._num_slots = config.max_batch_sequences
        self._max_chunk = config.max_prefill_chunk
        self._saved_s = 0.0  # time that others may add to steps of small keys; below 0, a debt
        self._small: abc.Set[KeyQueue] = frozenset()
        self._choice: StepChoice | None = None  # of the step that is computed
        self._num_steps = 0
        self._tokens_per_s = 0.0  # moving average

    def choose(self, decodes: list[Sequence], prefills: abc.Collection[Sequence], now: float) -> StepChoice | None:
        """Choose among the running sequences. Return None if no sequence has to yield."""
        self._choice = None
        credit = max(_CREDIT_TOKENS, _CREDIT_S * self._tokens_per_s)
        self._small = self._queue.small_keys(self._num_slots, credit)
        if not self._small and not self._queue.num_limited:
            return None
        entitled = self._queue.entitled_keys(credit) if self._queue.num_limited else frozenset()
        all_s = self._times.decode_s(len(decodes)) or 0.0 if decodes else 0.0
        horizon = now + _HORIZON_STEPS * all_s
        if prefills or self._queue.num_waiting:
            horizon += self._max_chunk * self._times.prompt_token_s
        choice = self._split(decodes, entitled, now, horizon)
        self._trim(choice, now)
        spare_s = self._spare_s(choice, now)
        if entitled:
            spare_s = min(spare_s, self._spare_of_prompts_s(prefills, entitled, now, all_s))
        self._share_out(choice, spare_s, now)
        self._num_steps += 1
        for sequence in choice.rows:
            sequence.last_paced_step = self._num_steps
        self._choice = choice
        return choice

    def record(self, step: Step, seconds: float) -> None:
        """Record the duration of the step of the last choice: save others' part of it, and deduct what they used."""
        choice, self._choice = self._choice, None
        if seconds > 0:
            self._tokens_per_s += _NEW_WEIGHT * (step.num_tokens / seconds - self._tokens_per_s)
        if choice is None or not self._small:
            return
        self._saved_s = saved_after(self._saved_s, choice, step, seconds, self._times)

    def _split(
        self, decodes: abc.Iterable[Sequence], entitled: abc.Set[KeyQueue], now: float, horizon: float
    ) -> StepChoice:
        """Return a choice of the protected sequences: those of small keys, and those due before `horizon`."""
        protected: list[Sequence] = []
        others: list[Sequence] = []
        for sequence in decodes:
            key = self._queue.key_of(sequence)
            is_urgent = key in entitled and sequence.due < horizon and not self._is_lost(sequence, now)
            (protected if is_urgent or key in self._small else others).append(sequence)
        return StepChoice(protected, others, lambda each: self._is_first(each, entitled))

    def _is_lost(self, sequence: Sequence, now: float) -> bool:
        """Return whether a limit can't be kept any more."""
        late_s = now - sequence.due
        if late_s <= 0:
            return False
        num_left = sequence.max_tokens - sequence.num_generated_tokens
        return late_s > _MAX_LATE_SHARE * num_left * (sequence.request.service_level.token_s or 0.0)

    def _is_first(self, sequence: Sequence, entitled: abc.Set[KeyQueue]) -> bool:
        key = self._queue.key_of(sequence)
        return key in self._small or (key in entitled and sequence.due < math.inf)

    def _trim(self, choice: StepChoice, now: float) -> None:
        """Hold the protected sequences that are due last, if the first could not be in time with all of them."""
        if len(choice.rows) < 2:
            return
        choice.rows.sort(key=lambda each: (self._queue.key_of(each) not in self._small, each.due))
        num_small = sum(self._queue.key_of(each) in self._small for each in choice.rows)
        least_s = self._times.decode_s(num_small + 1)
        dues = [each.due for each in choice.rows[num_small:] if each.due - now >= (least_s or 0.0)]
        if not dues or least_s is None:
            return
        number = self._times.num_decodes_within(dues[0] - now, num_small + 1, len(choice.rows))
        choice.held[:0] = choice.rows[number:]
        del choice.rows[number:]
        choice.num_protected = number

    def _spare_s(self, choice: StepChoice, now: float) -> float:
        """Return the time that others may add to the step of the protected decodes."""
        alone_s = self._times.decode_s(choice.num_protected) if choice.num_protected else 0.0
        spare_s = math.inf
        if self._small:
            spare_s = 0.0 if alone_s is None else max(self._saved_s, 0.0)
        dues = [each.due for each in choice.rows if each.due < math.inf]
        if dues:
            spare_s = min(spare_s, max(min(dues) - now - (alone_s or 0.0), 0.0))
        return spare_s

    def _spare_of_prompts_s(
        self, prefills: abc.Iterable[Sequence], entitled: abc.Set[KeyQueue], now: float, all_s: float
    ) -> float:
        """Return the time that others may add to the step so that prompts have their first token in time."""
        token_s = self._times.prompt_token_s
        waiting = [self._queue.first_in_time(key, now, token_s) for key in entitled]
        spare_s = math.inf
        for sequence in [*(each for each in waiting if each), *prefills]:
            if sequence.due < math.inf:
                left_s = sequence.due - now - sequence.num_lacking * token_s
                if left_s < _HORIZON_STEPS * all_s:
                    spare_s = min(spare_s, max(left_s - all_s, 0.0))
        return spare_s

    def _share_out(self, choice: StepChoice, spare_s: float, now: float) -> None:
        """Add held sequences to the step within the spare time, the one that waited longest first."""
        if spare_s < math.inf:
            add_within(choice, spare_s, self._times)
        else:
            choice.rows += choice.held
            choice.held = []
        due = min((each.due for each in choice.rows[: choice.num_protected]), default=math.inf)
        if due < math.inf:
            choice.prompts_s = max(due - now - (self._times.decode_s(len(choice.rows)) or 0.0), 0.0)


def add_within(choice: StepChoice, spare_s: float, times: StepTimes) -> None:
    """Add held sequences to a step within the spare time, the one that waited longest first."""
    number = choice.num_protected
    alone_s = (times.decode_s(number) or 0.0) if number else 0.0
    most = number + len(choice.held)
    total = times.num_decodes_within(alone_s + spare_s, number, most) if spare_s > 0 else number
    choice.held.sort(key=_by_last_step)
    num_added = total - number
    choice.rows += choice.held[:num_added]
    del choice.held[:num_added]
    total_s = (times.decode_s(total) or 0.0) if total else 0.0
    choice.others_s = max(spare_s - (total_s - alone_s), 0.0)


def saved_after(saved_s: float, choice: StepChoice, step: Step, seconds: float, times: StepTimes) -> float:
    """Return the time that others may add to later steps, after a step of the protected that took `seconds`."""
    alone_s = times.decode_s(choice.num_protected) or 0.0 if choice.num_protected else 0.0
    used_s = (times.decode_s(step.num_decodes) or 0.0) - alone_s if step.num_decodes else 0.0
    used_s = max(used_s, 0.0) + choice.num_other_tokens * times.prompt_token_s
    saved_s += _GRANT * max(seconds - used_s, 0.0) - used_s
    _, row_s = times.decode_times
    most_s = max(_MAX_SAVED_S, 2 * row_s, 2 * MIN_OTHER_CHUNK * times.prompt_token_s)
    return min(max(saved_s, -most_s), most_s)
