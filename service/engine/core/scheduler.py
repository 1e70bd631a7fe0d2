"""The scheduler: it decides how many tokens of each sequence the next step computes, and allocates their blocks."""

from __future__ import annotations

import math
from collections import abc

from service.engine.core.batch_pace import BatchPace
from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.blocks.prefix_states import PrefixStates
from service.engine.core.blocks.sequence_memory import SequenceMemory
from service.engine.core.capacity import AdmissionCapacity
from service.engine.core.deadlines import Deadlines
from service.engine.core.drafts.speculation import Speculation
from service.engine.core.drafts.step_drafts import StepDrafts
from service.engine.core.lookahead import Lookahead
from service.engine.core.pace import MIN_OTHER_CHUNK, StepChoice
from service.engine.core.queue.fair_queue import FairQueue, KeyQueue
from service.engine.core.queue.turns import Turns
from service.engine.core.sequences.running import RunningSequences
from service.engine.core.sequences.sequence import Sequence, SequenceGroup
from service.engine.core.step import ScheduledSequence, Step, StepPlan
from service.engine.core.step_times import StepTimes
from service.engine.interface.config import EngineConfig


class Scheduler:
    """Schedules the missing tokens of sequences, `len(token_ids) - num_computed_tokens`, within a step's budget.

    Decodes are scheduled first. Then the API keys take turns, the key with the least service first; each key continues
    its running prompts before it starts another request. A step with decodes computes at most `max_prefill_chunk`
    prompt tokens, and fewer if these would make it longer than `max_slowdown` allows. Both yield to requests with a
    service level and to keys far below their share, see `pace`. When blocks run out, the last sequence of the key with
    the most service is preempted: it releases all of its blocks and is queued again. A request is not started if it
    cannot have its first token before its deadline.
    """

    def __init__(
        self,
        config: EngineConfig,
        pool: BlockPool,
        speculation: Speculation | None = None,
        states: PrefixStates | None = None,
    ) -> None:
        """Without `speculation`, no step has drafts. `states` is None for a model without recurrent states."""
        self.memory = SequenceMemory(pool, states, caches=config.prefix_caching)
        self.num_preemptions = 0
        self._config = config
        self.step_times = StepTimes(config.max_slowdown, config.max_decode_slowdown)
        self._drafts = StepDrafts(speculation, pool, config.max_batch_tokens)
        self._queue = FairQueue()
        self.lookahead = Lookahead(pool, self._queue)
        self._running = RunningSequences()
        self._capacity = AdmissionCapacity(config, pool, self._queue, self.step_times, self._running)
        # Further choices stay here until the first choice has computed the prompt; then they find it in the cache.
        self._following: dict[SequenceGroup, list[Sequence]] = {}
        self._groups: dict[SequenceGroup, None] = {}
        self._deadlines = Deadlines(self._groups.keys(), self.step_times)
        self._pace = BatchPace(self.step_times, self._queue, config)

    @property
    def has_work(self) -> bool:
        """True if any request is unfinished."""
        return bool(self._groups)

    @property
    def num_waiting(self) -> int:
        """The number of sequences without blocks."""
        return self._queue.num_waiting + sum(map(len, self._following.values()))

    @property
    def num_running(self) -> int:
        """The number of sequences that hold blocks."""
        return len(self._running)

    @property
    def max_running(self) -> int:
        """The number of sequences that may run at a time, by batch slots and by `max_decode_slowdown`."""
        return self._capacity.max_running

    def end_steps_early(self) -> None:
        """Plan longer steps of batches, since they end as soon as another request arrives."""
        self._pace.ends_steps = True

    def add(self, group: SequenceGroup) -> None:
        """Enqueue the group's sequences. Each of them must fit into the empty cache at its maximum length.

        Raise ValueError unless the weight is above 0.
        """
        self._queue.enter(group)
        if not group.request.is_batch:
            self._pace.record_arrival(group.arrived)
        self._deadlines.add(group)
        first, *following = group.sequences
        self._groups[group] = None
        self._following[group] = following
        self._queue.wait(first)

    def expired(self, now: float) -> list[SequenceGroup]:
        """Return the groups whose deadline has passed, and those that `schedule` found too late to start."""
        return self._deadlines.expired(now)

    def schedule(self, now: float) -> Step | None:
        """Choose the next step and allocate its sequences' blocks.

        Return None if there is nothing to compute; `expired` may then return groups that are too late to start.
        """
        if not self._groups:
            return None
        plan = StepPlan(self._config.max_batch_tokens)
        decodes, prefills = self._running.split()
        choice = self._pace.choose(decodes, prefills, now)
        if choice is not None:
            self._plan_paced(choice, prefills, plan, now)
            if not any(map(choice.is_first, plan.shares)):  # no sequence needs the others to yield
                decodes, choice = choice.held, None
                plan.num_left = self._config.max_batch_tokens - sum(plan.shares.values())
        if choice is None:
            self._plan_all(decodes, prefills, plan, now)
        if not plan.shares:
            if self._deadlines.too_late:
                return None
            raise RuntimeError("sequences wait, but none can be scheduled")
        self._drafts.add(plan, choice.is_first if choice is not None else None)
        self.memory.plan(plan)
        self.lookahead.plan(plan, is_paced=choice is not None)
        return plan.to_step()

    def advance(self, sequence: Sequence, num_tokens: int) -> None:
        """Record that `num_tokens` more of the sequence's tokens are computed."""
        self.memory.advance(sequence, num_tokens)
        self._queue.charge(sequence, sequence.num_computed_tokens)
        if self._following and sequence.num_computed_tokens >= sequence.num_prompt_tokens:
            for following in self._following.pop(sequence.group, ()):
                self._queue.wait(following)

    def expected_s(self, step: Step) -> float:
        """Return the expected duration of a step in seconds; 0 until steps were measured."""
        return self.step_times.expected_s(step.num_decodes, step.num_prompt_tokens)

    def record_step_time(self, step: Step, seconds: float) -> None:
        """Record a step's duration in seconds."""
        self.step_times.record(step.num_decodes, step.num_prompt_tokens, seconds)
        self._pace.record(step, seconds)
        self._drafts.record_step_time(step, seconds)

    def record_draft(self, item: ScheduledSequence, num_accepted: int) -> None:
        """Record the number of an item's drafts that were accepted."""
        self._drafts.record(item, num_accepted)
        self.memory.accept(item, num_accepted)

    def finish(self, sequence: Sequence) -> None:
        """Remove a sequence that has its finish reason."""
        self._stop(sequence)
        if sequence.first_token is not None and not sequence.request.is_batch:
            self._pace.record_first_token(sequence.first_token - sequence.group.arrived)
        if sequence.group.is_finished:
            del self._groups[sequence.group]
            self._queue.leave(sequence.group)

    def drop(self, group: SequenceGroup) -> list[Sequence]:
        """Remove a group, and return its sequences that were running. Do nothing if it was removed before."""
        if group not in self._groups:
            return []
        del self._groups[group]
        self._following.pop(group, None)
        self._queue.remove(group)
        dropped = [sequence for sequence in group.sequences if sequence in self._running]
        for sequence in dropped:
            self._stop(sequence)
        self._queue.leave(group)
        return dropped

    def check(self) -> None:
        """Raise RuntimeError if a block or a state's slot is lost or owned twice."""
        self.memory.check(self._running)

    def _continue(self, sequence: Sequence, plan: StepPlan, limit: int | None = None) -> None:
        """Schedule tokens of a running sequence, at most `limit`.

        Preempt sequences after it in the order if blocks are lacking.
        """
        num_new = self.memory.num_schedulable(sequence, plan.num_left if limit is None else limit)
        if num_new <= 0 or sequence not in self._running:  # an image may have exceeded the budget
            return
        while not self.memory.pool.extend(sequence, num_new):
            last = self._queue.last(self._running)
            self._preempt(last, plan)
            if last is sequence:
                return
        self._schedule_tokens(sequence, num_new, plan)

    def _plan_all(self, decodes: list[Sequence], prefills: list[Sequence], plan: StepPlan, now: float) -> None:
        """Add all decodes to the step, and prompts within the budget that they leave."""
        for sequence in decodes:
            self._continue(sequence, plan)
        if plan.shares:
            plan.num_left = self.step_times.prefill_budget(len(plan.shares), self._max_chunk(plan))
        self._fill(plan, [each for each in prefills if each not in plan.shares], now)

    def _plan_paced(self, choice: StepChoice, prefills: list[Sequence], plan: StepPlan, now: float) -> None:
        """Add the chosen decodes to the step, then the prompts that others yield to, then others in the spare time."""
        for sequence in choice.rows:
            self._continue(sequence, plan)
        if (protected := choice.num_protected) or choice.prompts_s < math.inf:
            limit = self.step_times.num_prompt_tokens_within(choice.prompts_s, self._max_chunk(plan))
            budget = self.step_times.prefill_budget(protected, limit) if protected else max(limit, MIN_OTHER_CHUNK)
            plan.num_left = budget
        self._fill(plan, [each for each in prefills if choice.is_first(each)], now, choice.is_first)
        if not plan.shares:
            return
        limit = self.step_times.num_prompt_tokens_within(choice.others_s, self._max_chunk(plan))
        if limit < min(MIN_OTHER_CHUNK, self._config.max_prefill_chunk):
            limit = 0  # the time is saved up: small chunks cost several times as much per token
        elif choice.rows:
            limit = self.step_times.prefill_budget(len(choice.rows), limit)
        plan.num_left = choice.num_other_tokens = limit
        others = [each for each in prefills if each not in plan.shares]
        self._fill(plan, others, now, with_batches=choice.with_batches)
        choice.num_other_tokens -= plan.num_left

    def _max_chunk(self, plan: StepPlan) -> int:
        return max(0, min(plan.num_left, self._config.max_prefill_chunk))

    def _fill(
        self,
        plan: StepPlan,
        prefills: abc.Iterable[Sequence],
        now: float,
        is_wanted: abc.Callable[[Sequence], bool] | None = None,
        *,
        with_batches: bool = True,
    ) -> None:
        """Give the step's remaining budget to running prompts and to queued sequences, key by key."""
        num_free = None if plan.preempted else self.max_running - self.num_running
        turns = Turns(prefills, self._queue, self.step_times, is_wanted, num_free, with_batches=with_batches)
        while plan.num_left > 0 and (key := turns.next()) is not None:
            if (sequence := turns.take(key)) is not None:
                self._continue(sequence, plan, turns.limit(key, sequence, plan.num_left))
            elif not key.waiting or plan.preempted or not self._admit(key, plan, turns, now):
                turns.end(key)
        for sequence, limit in turns.leftover(plan.num_left):
            self._continue(sequence, plan, min(limit, plan.num_left))

    def _admit(self, key: KeyQueue, plan: StepPlan, turns: Turns, now: float) -> bool:
        """Start the first queued sequence of a key. Return False if no slot or block is free for it."""
        capacity = self._capacity
        if not capacity.has_slot(key) and not self._displace(capacity.displaced(key, plan.admitted), plan):
            return False
        sequence = key.waiting[0]
        found = self.memory.find(sequence)
        num_lacking = len(sequence.token_ids) - found.num_blocks * self.memory.pool.block_size
        if self._deadlines.is_too_late(sequence, num_lacking, now):
            self._deadlines.too_late.append(self._queue.pop(key).group)
            return True
        while not capacity.has_blocks(sequence, found):
            if not self._displace(capacity.displaced_blocks(key, plan.admitted), plan):
                return False
        self._queue.pop(key)
        key.num_running += 1
        self._running.add(sequence)
        plan.admitted.add(sequence)
        self.memory.start(sequence, found)
        sequence.num_charged_tokens = max(sequence.num_charged_tokens, sequence.num_computed_tokens)
        if sequence.scheduled is None:
            sequence.scheduled = now
            if sequence.choice_index == 0:
                plan.started.append(sequence.group)
                self.memory.count_prefix(sequence)
        num_new = self.memory.num_schedulable(sequence, turns.limit(key, sequence, plan.num_left, is_starting=True))
        if not self.memory.pool.extend(sequence, num_new):
            raise RuntimeError("blocks that were counted as free are not free")
        self._schedule_tokens(sequence, num_new, plan)
        return True

    def _schedule_tokens(self, sequence: Sequence, num_new_tokens: int, plan: StepPlan) -> None:
        plan.add(sequence, num_new_tokens)
        self._queue.charge(sequence, sequence.num_computed_tokens + num_new_tokens)

    def _stop(self, sequence: Sequence) -> None:
        """Remove a sequence from the running ones, and release its memory and drafts."""
        self._running.remove(sequence)
        self._queue.key_of(sequence).num_running -= 1
        self.memory.release(sequence)
        self._drafts.release(sequence)

    def _displace(self, sequence: Sequence | None, plan: StepPlan) -> bool:
        """Preempt `sequence` for another key's sequence. Return False if it is None."""
        if sequence is not None:
            self._preempt(sequence, plan)
        return sequence is not None

    def _preempt(self, sequence: Sequence, plan: StepPlan) -> None:
        """Stop a sequence and return it to the queue; it will be computed again from its start."""
        self._stop(sequence)
        plan.preempt(sequence)
        sequence.num_computed_tokens = 0
        sequence.num_preemptions += 1
        self.num_preemptions += 1
        self._queue.wait(sequence)
