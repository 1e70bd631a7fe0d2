"""Decide what the next step computes: how many tokens and blocks each sequence gets."""

from __future__ import annotations

import math
from collections import deque
from operator import attrgetter

from service.engine.config import EngineConfig
from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.capacity import AdmissionCapacity
from service.engine.core.drafts.speculation import MAX_DRAFTS, Speculation
from service.engine.core.fair_queue import FairQueue, KeyQueue
from service.engine.core.sequences.sequence import Sequence, SequenceGroup
from service.engine.core.step import ScheduledSequence, Step, StepPlan, share_of
from service.engine.core.step_times import StepTimes

_EXPECTED_TOKENS = 256  # of an answer: room that is looked for, not kept
_MAX_WAITS = 5.0  # times `max_queue_wait_s` that a request waits for its beginning, at most
_by_order = attrgetter("order")
_by_rank = attrgetter("rank")


class Scheduler:
    """Hands out what sequences lack, `len(token_ids) - num_computed_tokens`, within a step's bounds.

    Sequences that decode come first. Then the keys take turns, the one that was served least before the others, and
    each goes on with its prompts before it begins another request. A step that decodes computes at most
    `max_prefill_chunk` tokens beside, and fewer where these would make it longer than `max_slowdown` allows. When
    blocks run out, the last sequence of the key that was served most gives back all of its own and waits again. What
    can't have its first token before its deadline is not begun, nor what has waited far longer than it was let in for.
    """

    def __init__(self, config: EngineConfig, pool: BlockPool, speculation: Speculation | None = None) -> None:
        """Without `speculation` no step has drafts."""
        self.pool = pool
        self.num_preemptions = 0
        self.num_prefix_query_tokens = 0
        self.num_prefix_hit_tokens = 0
        self._config = config
        self._step_times = StepTimes(config.max_slowdown, config.max_decode_slowdown)
        self._speculation = speculation
        self._queue = FairQueue()
        self._running: dict[Sequence, None] = {}
        self._ordered: list[Sequence] | None = None  # those, until others run
        self._room = AdmissionCapacity(config, pool, self._queue, self._step_times, self._running.keys())
        # Later choices stay here until the first has computed the prompt, and then find it in the cache.
        self._following: dict[SequenceGroup, list[Sequence]] = {}
        self._groups: dict[SequenceGroup, None] = {}
        self._too_late: list[SequenceGroup] = []  # neither waiting nor running; `expired` gives them once
        self._next_deadline = math.inf  # no request's is earlier

    @property
    def has_work(self) -> bool:
        """Whether any request is left."""
        return bool(self._groups)

    @property
    def num_waiting(self) -> int:
        """Sequences that have no blocks."""
        return self._queue.num_waiting + sum(map(len, self._following.values()))

    @property
    def num_running(self) -> int:
        """Sequences that have blocks."""
        return len(self._running)

    @property
    def max_running(self) -> int:
        """Sequences that may run at a time: as many as there are places, and no more than let a step be short."""
        return self._room.max_running

    def add(self, group: SequenceGroup) -> None:
        """Let the group's sequences wait for their turn. Each alone must fit into the cache at its longest.

        Raises ValueError for a weight that isn't above 0.
        """
        self._queue.enter(group)
        if group.request.deadline is not None:
            self._next_deadline = min(self._next_deadline, group.request.deadline)
        first, *following = group.sequences
        self._groups[group] = None
        self._following[group] = following
        self._queue.wait(first)

    def expired(self, now: float) -> list[SequenceGroup]:
        """The groups whose deadline has passed, and those that `schedule` found too late to begin."""
        if now < self._next_deadline and not self._too_late:
            return []
        too_late, self._too_late = self._too_late, []
        deadlines = {group: group.request.deadline for group in self._groups if group.request.deadline is not None}
        passed = [group for group, deadline in deadlines.items() if deadline <= now]
        self._next_deadline = min((each for each in deadlines.values() if each > now), default=math.inf)
        return [*passed, *(group for group in too_late if group in self._groups and group not in passed)]

    def overdue(self, now: float) -> list[SequenceGroup]:
        """The groups that have waited for their beginning so long that whoever asked counts on it no more."""
        return self._queue.overdue(now, _MAX_WAITS * self._config.max_queue_wait_s)

    def schedule(self, now: float) -> Step | None:
        """Choose the next step and give its sequences their blocks.

        None if there is nothing to compute; `expired` may then have groups that came too late.
        """
        if not self._groups:
            return None
        plan = StepPlan(self._config.max_batch_tokens)
        if self._ordered is None:
            self._ordered = sorted(self._running, key=_by_order)
        running = self._ordered
        for sequence in running:
            if len(sequence.token_ids) - sequence.num_computed_tokens == 1:
                self._continue(sequence, plan)
        if plan.shares:
            limit = min(plan.num_left, self._config.max_prefill_chunk)
            plan.num_left = self._step_times.prefill_budget(len(plan.shares), limit)
        self._fill(plan, [sequence for sequence in running if sequence.num_lacking > 1], now)
        if not plan.shares:
            if self._too_late:
                return None
            raise RuntimeError("sequences wait, but none can be scheduled")
        self._draft(plan)
        return plan.to_step()

    def advance(self, sequence: Sequence, num_tokens: int) -> None:
        """Take note that so many more of the sequence's tokens are computed."""
        block_size = self.pool.block_size
        num_full = sequence.num_computed_tokens // block_size
        sequence.num_computed_tokens += num_tokens
        self._queue.charge(sequence, sequence.num_computed_tokens)
        num_full_now = sequence.num_computed_tokens // block_size
        if num_full_now > num_full and (self._config.prefix_caching or len(sequence.group.sequences) > 1):
            self.pool.publish(sequence, num_full, num_full_now)
        if self._following and sequence.num_computed_tokens >= sequence.num_prompt_tokens:
            for following in self._following.pop(sequence.group, ()):
                self._queue.wait(following)

    def expected_s(self, step: Step) -> float:
        """How long a step will likely take, as far as is known."""
        return self._step_times.expected_s(step.num_decodes, step.num_prompt_tokens)

    def record_step_time(self, step: Step, seconds: float) -> None:
        """Learn from how long a step took."""
        self._step_times.record(step.num_decodes, step.num_prompt_tokens, seconds)
        if self._speculation is not None and step.num_prompt_tokens == 0:
            self._speculation.record_step_time(step.num_decodes, step.num_drafts, seconds)

    def record_draft(self, item: ScheduledSequence, num_right: int) -> None:
        """Learn how many of an item's drafts were right."""
        if self._speculation is not None:
            self._speculation.note(item.sequence, len(item.draft), num_right)

    def finish(self, sequence: Sequence) -> None:
        """Forget a sequence that has its finish reason."""
        self._stop(sequence)
        if sequence.group.is_finished:
            del self._groups[sequence.group]
            self._queue.leave(sequence.group)

    def drop(self, group: SequenceGroup) -> list[Sequence]:
        """Forget all that is left of a group; return those of its sequences that ran. Repeating it does nothing."""
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
        """Raise RuntimeError if the blocks don't add up."""
        self.pool.check(self._running)

    def _continue(self, sequence: Sequence, plan: StepPlan) -> None:
        """Give a running sequence its share, at the cost of those after it in the order if need be."""
        num_new = share_of(sequence, plan.num_left)
        if num_new == 0 or sequence not in self._running:
            return
        while not self._grow(sequence, num_new):
            last = self._queue.last(self._running)
            self._preempt(last, plan)
            if last is sequence:
                return
        self._give(sequence, num_new, plan)

    def _fill(self, plan: StepPlan, prefills: list[Sequence], now: float) -> None:
        """Give what decodes left of a step to prompts, while it lasts, and begin what waits."""
        begun: dict[KeyQueue, deque[Sequence]] = {}
        for sequence in prefills:
            begun.setdefault(self._queue.of(sequence), deque()).append(sequence)
        others = [key for key in self._queue.active if key.waiting] if not plan.preempted else []
        turns = list(dict.fromkeys([*begun, *others]))
        while plan.num_left > 0 and turns:
            key = min(turns, key=_by_rank)
            if begun.get(key):
                self._continue(begun[key].popleft(), plan)
            elif not key.waiting or plan.preempted or not self._begin(key, plan, now):
                # Nobody passes the first in line, or a large request would be passed by small ones for ever.
                turns = [each for each in turns if begun.get(each) or (each is not key and not key.waiting)]

    def _begin(self, key: KeyQueue, plan: StepPlan, now: float) -> bool:
        """Let the first waiting sequence of a key run; False if there is no place or no block for it."""
        room = self._room
        if not room.has_place(key) and not self._displace(room.displaced(key, plan.begun), plan):
            return False
        sequence = key.waiting[0]
        found = [] if sequence.needs_prompt_logprobs else self.pool.find(sequence)
        if self._is_too_late(sequence, len(found), now):
            self._too_late.append(self._queue.pop(key).group)
            return True
        while not room.has_blocks(sequence, found):
            if not self._displace(room.displaced_blocks(key, plan.begun), plan):
                return False
        self._queue.pop(key)
        key.num_running += 1
        self._running[sequence] = None
        self._ordered = None
        plan.begun.add(sequence)
        self.pool.hold(found)
        sequence.block_table.extend(found)
        sequence.num_computed_tokens = len(found) * self.pool.block_size
        sequence.num_charged_tokens = max(sequence.num_charged_tokens, sequence.num_computed_tokens)
        if sequence.scheduled is None:
            sequence.scheduled = now
            self._note_start(sequence, plan)
        num_new = share_of(sequence, plan.num_left)
        if not self._grow(sequence, num_new):
            raise RuntimeError("the blocks that were counted as free are not")
        self._give(sequence, num_new, plan)
        return True

    def _is_too_late(self, sequence: Sequence, num_found_blocks: int, now: float) -> bool:
        """Whether a request of which nothing has run yet can't have a token before its deadline."""
        deadline = sequence.request.deadline
        if deadline is None or sequence.scheduled is not None or sequence.choice_index > 0:
            return False
        num_lacking = len(sequence.token_ids) - num_found_blocks * self.pool.block_size
        return self._step_times.is_too_late(num_lacking, deadline - now)

    def _note_start(self, sequence: Sequence, plan: StepPlan) -> None:
        if sequence.choice_index > 0:
            return
        group = sequence.group
        plan.started.append(group)
        group.num_cached_tokens = sequence.num_computed_tokens
        if not sequence.needs_prompt_logprobs:  # those are not looked up
            self.num_prefix_query_tokens += sequence.num_prompt_tokens
        self.num_prefix_hit_tokens += sequence.num_computed_tokens

    def _grow(self, sequence: Sequence, num_new_tokens: int) -> bool:
        """Extend the block table to hold that many more tokens; False, and no change, if blocks are lacking."""
        num_tokens = sequence.num_computed_tokens + num_new_tokens
        if num_tokens <= len(sequence.block_table) * self.pool.block_size:
            return True
        num_missing = self.pool.num_blocks_for(num_tokens) - len(sequence.block_table)
        after = sequence.block_table[-1] if sequence.block_table else None
        num_expected = min(sequence.num_prompt_tokens + sequence.max_tokens, len(sequence.token_ids) + _EXPECTED_TOKENS)
        room = self.pool.num_blocks_for(num_expected) - len(sequence.block_table)
        block_ids = self.pool.allocate(num_missing, after, room=room)
        if block_ids is None:
            return False
        sequence.block_table.extend(block_ids)
        return True

    def _give(self, sequence: Sequence, num_new_tokens: int, plan: StepPlan) -> None:
        plan.add(sequence, num_new_tokens)
        self._queue.charge(sequence, sequence.num_computed_tokens + num_new_tokens)

    def _stop(self, sequence: Sequence) -> None:
        del self._running[sequence]
        self._ordered = None
        self._queue.of(sequence).num_running -= 1
        self.pool.release(sequence)
        if self._speculation is not None:
            self._speculation.release(sequence)

    def _draft(self, plan: StepPlan) -> None:
        """Let sequences that decode compute drafts too, while tokens and blocks last that nobody else needs."""
        if self._speculation is None or self._speculation.rests():
            return
        decodes = [sequence for sequence in plan.shares if sequence.num_lacking == 1 and sequence.num_generated_tokens]
        if not decodes:
            return
        most = self._config.max_batch_tokens - sum(plan.shares.values())
        plan.drafts = self._speculation.drafts(decodes, most, self._room_for_draft)

    def _room_for_draft(self, sequence: Sequence) -> int:
        """How many tokens beyond the next one the block table holds, or could be made to hold."""
        self._grow(sequence, 1 + min(MAX_DRAFTS, sequence.max_tokens - sequence.num_generated_tokens - 1))
        return len(sequence.block_table) * self.pool.block_size - sequence.num_computed_tokens - 1

    def _displace(self, sequence: Sequence | None, plan: StepPlan) -> bool:
        """Let a sequence wait again for the sake of another key's, if there is one to."""
        if sequence is not None:
            self._preempt(sequence, plan)
        return sequence is not None

    def _preempt(self, sequence: Sequence, plan: StepPlan) -> None:
        self._stop(sequence)
        plan.preempt(sequence)
        sequence.num_computed_tokens = 0
        sequence.num_preemptions += 1
        self.num_preemptions += 1
        self._queue.wait(sequence)
