"""The drafts of an engine's steps."""

from __future__ import annotations

from collections import abc

from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.drafts.speculation import MAX_DRAFTS, Speculation
from service.engine.core.sequences.sequence import Sequence
from service.engine.core.step import ScheduledSequence, Step, StepPlan


class StepDrafts:
    """Adds drafts to steps, from the tokens and blocks that they leave unused. It belongs to the scheduler."""

    def __init__(self, speculation: Speculation | None, pool: BlockPool, max_batch_tokens: int) -> None:
        """Without `speculation`, no step has drafts."""
        self._speculation = speculation
        self._pool = pool
        self._max_batch_tokens = max_batch_tokens

    def add(self, plan: StepPlan, is_wanted: abc.Callable[[Sequence], bool] | None) -> None:
        """Add drafts to the plan's decodes; with `is_wanted`, only to those for which it returns True."""
        if self._speculation is None or self._speculation.is_paused():
            return
        decodes = [sequence for sequence in plan.shares if sequence.num_lacking == 1 and sequence.num_generated_tokens]
        if is_wanted is not None:
            decodes = list(filter(is_wanted, decodes))
        if not decodes:
            return
        most = max(0, self._max_batch_tokens - sum(plan.shares.values()))  # an image may exceed it
        plan.drafts = self._speculation.drafts(decodes, most, self._capacity)

    def record(self, item: ScheduledSequence, num_accepted: int) -> None:
        """Record the number of an item's drafts that were accepted."""
        if self._speculation is not None:
            self._speculation.record(item.sequence, len(item.draft), num_accepted)

    def record_step_time(self, step: Step, seconds: float) -> None:
        """Record a step's duration in seconds."""
        if self._speculation is not None and step.num_prompt_tokens == 0:
            self._speculation.record_step_time(step.num_decodes, step.num_drafts, seconds)

    def release(self, sequence: Sequence) -> None:
        """Drop the state of a sequence that has ended, or was preempted and will be computed again."""
        if self._speculation is not None:
            self._speculation.release(sequence)

    def _capacity(self, sequence: Sequence) -> int:
        """Extend the block table for drafts if possible; return the number of tokens it holds beyond the next one."""
        self._pool.extend(sequence, 1 + min(MAX_DRAFTS, sequence.max_tokens - sequence.num_generated_tokens - 1))
        return len(sequence.block_table) * self._pool.block_size - sequence.num_computed_tokens - 1
