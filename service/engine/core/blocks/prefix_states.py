"""Recurrent states along the scheduler's steps: where sequences start, and which states are kept as checkpoints."""

from __future__ import annotations

from collections import abc

from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.blocks.block_tables import CachedPrefix
from service.engine.core.blocks.state_pool import CHECKPOINT_INTERVAL, StatePool
from service.engine.core.sequences.sequence import Sequence
from service.engine.core.sequences.sequence_state import SequenceState
from service.engine.core.step import StepPlan

_LEAST_POWER = 256  # tokens; shorter prompts are not worth a step of their own
_LEAST_SPACING = 256  # tokens between checkpoints within a prompt, each of which ends a step


class PrefixStates:
    """The states of running sequences, and the checkpoints by which later sequences skip a cached prefix.

    A checkpoint is taken in a prompt at its last whole block, where it departs from an earlier text whose blocks are
    cached, at powers of two from 256 on, and as regularly as the slots allow for a cache full of prompts, at most every
    256 tokens; in an answer every 64 tokens, of which the latest is kept. A step takes at most one per sequence.
    """

    def __init__(self, states: StatePool, blocks: BlockPool, *, caches: bool, splits: bool = True) -> None:
        """Without `caches` only the states of prompts with several choices become checkpoints.

        Without `splits` no state is kept, since the runner can't keep the state before a step's last tokens.
        """
        self._caches = caches
        self._splits = splits
        self._states = states
        self._blocks = blocks
        num_tokens = blocks.num_blocks * blocks.block_size
        least = max(_LEAST_SPACING, blocks.block_size, num_tokens // max(states.num_spare, 1))
        self._spacing = -(-least // _LEAST_SPACING) * _LEAST_SPACING
        blocks.on_evict = states.evict  # a state can only be used with the keys and values before it

    @property
    def num_slots(self) -> int:
        """The number of all slots."""
        return self._states.num_slots

    @property
    def slot_bytes(self) -> int:
        """The bytes of a slot."""
        return self._states.slot_bytes

    @property
    def num_checkpoints(self) -> int:
        """The number of cached states."""
        return self._states.num_checkpoints

    @property
    def pool(self) -> StatePool:
        """The slots."""
        return self._states

    def find(self, sequence: Sequence) -> CachedPrefix:
        """Return the sequence's longest cached prefix that has a checkpoint at its end."""
        num_blocks, tables = self._blocks.find(sequence)
        sequence.departure = num_blocks * self._blocks.block_size
        while num_blocks and self._blocks.content_hash(sequence, num_blocks) not in self._states:
            num_blocks -= 1
        return CachedPrefix(num_blocks, [table[:num_blocks] for table in tables])

    def start(self, sequence: Sequence, num_blocks: int) -> None:
        """Give a sequence its state after the first `num_blocks` blocks, which `find` has returned."""
        content = self._blocks.content_hash(sequence, num_blocks) if num_blocks else b""
        sequence.state = self._states.start(content)

    def limit(self, sequence: Sequence, num_new: int) -> int:
        """Limit the new tokens of a prompt, so that a step passes only one checkpoint."""
        start = sequence.num_computed_tokens
        if not self._caches or start >= sequence.num_prompt_tokens:
            return num_new
        power = max(_LEAST_POWER, 1 << start.bit_length())
        regular = (start // self._spacing + 1) * self._spacing
        return min(num_new, min(power, regular) + self._blocks.block_size - start)

    def plan(self, plan: StepPlan) -> None:
        """Choose the states that a step keeps. Drafts are dropped if no slot is left for the state after them."""
        for sequence, num_new in plan.shares.items() if self._splits else ():
            state = _state_of(sequence)
            if draft := plan.drafts.get(sequence):
                if not self._states.split(state, len(draft)):
                    del plan.drafts[sequence]
            elif self._caches or len(sequence.group.sequences) > 1:
                self._keep(sequence, state, num_new)

    def advance(self, sequence: Sequence) -> None:
        """Note that a sequence's tokens in a step, without drafts, were computed."""
        state = _state_of(sequence)
        if state.content or not state.num_last:  # otherwise there are drafts, which may be rejected
            self._states.settle(state, keeps_last=True)

    def accept(self, sequence: Sequence, num_drafts: int, num_accepted: int) -> None:
        """End a step with drafts. If only some were accepted, these are computed again in the next step."""
        if sequence.state is None:  # the sequence has ended
            return
        is_whole = num_accepted == num_drafts
        self._states.settle(sequence.state, keeps_last=is_whole)
        if not is_whole:
            sequence.num_computed_tokens -= num_accepted

    def release(self, sequence: Sequence) -> None:
        """Release the state of a sequence that ended or was preempted."""
        self._states.release(_state_of(sequence))
        sequence.state = None

    def check(self, sequences: abc.Iterable[Sequence]) -> None:
        """Raise RuntimeError if a slot is lost or has two owners."""
        self._states.check(_state_of(sequence) for sequence in sequences)

    def _keep(self, sequence: Sequence, state: SequenceState, num_new: int) -> None:
        """Keep the state at the most useful end of a block that the step passes, if there is one."""
        start, size = sequence.num_computed_tokens, self._blocks.block_size
        end = start + num_new
        for border in self._borders(sequence, end, size):
            if not max(start, 1) <= border < end or border % size:
                continue
            content = self._blocks.content_hash(sequence, border // size)
            if content in self._states:
                continue
            if self._states.split(state, end - border, content) and border >= sequence.num_prompt_tokens:
                self._states.evict(state.rolling)
                state.rolling = content
            return

    def _borders(self, sequence: Sequence, end: int, block_size: int) -> tuple[int, ...]:
        """Return the positions before `end` at which states are useful, the most useful first."""
        if sequence.num_computed_tokens >= sequence.num_prompt_tokens:
            interval = max(CHECKPOINT_INTERVAL, block_size)
            return ((end - 1) // interval * interval,)
        power = 1 << max(end - 1, 1).bit_length() - 1
        last = (sequence.num_prompt_tokens - 1) // block_size * block_size
        regular = (end - 1) // self._spacing * self._spacing
        return (sequence.departure, last, power if power >= _LEAST_POWER else 0, regular)


def _state_of(sequence: Sequence) -> SequenceState:
    assert sequence.state is not None  # noqa: S101  running sequences have one
    return sequence.state
