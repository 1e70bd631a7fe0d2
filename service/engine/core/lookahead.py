"""The choice of decodes that a device computes before the engine has read the tokens they continue."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.queue.fair_queue import FairQueue
from service.engine.core.sequences.sequence import Sequence
from service.engine.core.step import StepPlan


@runtime_checkable
class ComputesAhead(Protocol):
    """A runner that may compute decodes of the next step before it returns the results of this one."""

    @property
    def computes_ahead(self) -> bool:
        """Whether it continues the `following` sequences of a step."""


class Lookahead:
    """Chooses the sequences of a step that the device may continue while the host accepts the step's tokens.

    A step of the chosen sequences is computed whatever happens meanwhile. So none is chosen where the next step would
    compute more than their decodes, since then the weights would be read twice.
    """

    def __init__(self, pool: BlockPool, queue: FairQueue) -> None:
        self.is_on = False  # whether the runner computes ahead
        self._pool = pool
        self._queue = queue

    def plan(self, plan: StepPlan, *, is_paced: bool) -> None:
        """Add the sequences to a complete step, and extend their block tables by the token that it samples.

        The next step after one that `is_paced` may have other sequences.
        """
        if not self.is_on or is_paced or plan.drafts:
            return
        following: list[Sequence] = []
        for sequence, num_new in plan.shares.items():
            is_last = sequence.num_generated_tokens + 1 >= sequence.max_tokens
            if num_new < sequence.num_lacking or sequence.state is not None or sequence.needs_prompt_logprobs:
                return
            if is_last and self._queue.num_waiting:
                return  # its place goes to a prompt
            if not is_last:
                following.append(sequence)
        if self._pool.num_free_blocks < len(following) * len(self._pool.groups):
            return  # they are left to the sequences that need them now
        for sequence in following:
            if not self._pool.extend(sequence, sequence.num_lacking + 1):
                return
        plan.following = following
