"""The memory of sequences: the blocks and recurrent states that they hold, and the cached prefixes they start with."""

from __future__ import annotations

from collections import abc

from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.blocks.block_tables import NO_PREFIX, CachedPrefix
from service.engine.core.blocks.cache_entry import BLOCK, STATE, CacheEntry, merge
from service.engine.core.blocks.prefix_states import PrefixStates
from service.engine.core.sequences.sequence import Sequence
from service.engine.core.step import ScheduledSequence, StepPlan, share_of


class SequenceMemory:
    """Keeps blocks and recurrent states in step with each other: a sequence gets, uses and releases both at once."""

    def __init__(self, pool: BlockPool, states: PrefixStates | None, *, caches: bool) -> None:
        """`states` is None for a model without recurrent states.

        Without `caches`, the choices of a request still share the blocks of their prompt.
        """
        self.pool = pool
        self.num_prefix_query_tokens = 0  # prompt tokens that were looked up in the cache
        self.num_prefix_hit_tokens = 0  # prompt tokens that were found there
        self.num_adopted_blocks = 0  # cached blocks that an earlier process has computed
        self._states = states
        self._caches = caches

    @property
    def num_states(self) -> int:
        """The number of slots for recurrent states; 0 for a model without them."""
        return 0 if self._states is None else self._states.num_slots

    @property
    def state_bytes(self) -> int:
        """The bytes of a slot for a recurrent state."""
        return 0 if self._states is None else self._states.slot_bytes

    @property
    def num_cached_states(self) -> int:
        """The number of slots that hold the state after a cached prefix."""
        return 0 if self._states is None else self._states.num_checkpoints

    def find(self, sequence: Sequence) -> CachedPrefix:
        """Return the cached prefix with which a sequence can start; an empty one if its prompt needs logprobs."""
        if sequence.needs_prompt_logprobs:
            return NO_PREFIX
        return self.pool.find(sequence) if self._states is None else self._states.find(sequence)

    def start(self, sequence: Sequence, found: CachedPrefix) -> None:
        """Give a sequence the blocks of its cached prefix, and its recurrent state after them."""
        self.pool.hold(sequence, found)
        if self._states is not None:
            self._states.start(sequence, found.num_blocks)
        sequence.num_computed_tokens = found.num_blocks * self.pool.block_size

    def count_prefix(self, sequence: Sequence) -> None:
        """Count the cached prompt tokens of a request whose first choice has started for the first time."""
        sequence.group.num_cached_tokens = sequence.num_computed_tokens
        if not sequence.needs_prompt_logprobs:  # otherwise the prompt is not looked up in the cache
            self.num_prefix_query_tokens += sequence.num_prompt_tokens
        self.num_prefix_hit_tokens += sequence.num_computed_tokens

    def num_schedulable(self, sequence: Sequence, num_left: int) -> int:
        """Return how many tokens of a sequence a step may compute, if `num_left` are left in the step's budget."""
        num_new = share_of(sequence, num_left)
        return num_new if self._states is None else self._states.limit(sequence, num_new)

    def plan(self, plan: StepPlan) -> None:
        """Choose the recurrent states that a step keeps, which may drop drafts from it."""
        if self._states is not None:
            self._states.plan(plan)

    def advance(self, sequence: Sequence, num_tokens: int) -> None:
        """Record that `num_tokens` more of the sequence's tokens are computed, and cache the blocks that are full."""
        block_size = self.pool.block_size
        num_full = sequence.num_computed_tokens // block_size
        sequence.num_computed_tokens += num_tokens
        num_full_now = sequence.num_computed_tokens // block_size
        if self._states is not None:
            self._states.advance(sequence)
        if num_full_now > num_full and (self._caches or len(sequence.group.sequences) > 1):
            self.pool.publish(sequence, num_full, num_full_now)
            if self._caches:
                num_written = min(num_full_now, sequence.num_prompt_tokens // block_size) - num_full
                sequence.num_written_tokens += max(num_written, 0) * block_size
        self.pool.give_back(sequence)

    def accept(self, item: ScheduledSequence, num_accepted: int) -> None:
        """End a sequence's step with drafts, of which the first `num_accepted` were accepted."""
        if self._states is not None:
            self._states.accept(item.sequence, len(item.draft), num_accepted)

    def release(self, sequence: Sequence) -> None:
        """Release the blocks and the state of a sequence that has ended or was preempted."""
        self.pool.release(sequence)
        if self._states is not None:
            self._states.release(sequence)

    def contents(self) -> list[CacheEntry]:
        """Return the cached blocks and states, the most useful first, and a state after the blocks that it needs."""
        states = {} if self._states is None else dict(self._states.pool.contents())
        return merge(self.pool.contents(), states)

    def adopt(self, entries: abc.Sequence[CacheEntry]) -> None:
        """Start with cached blocks and states, the most useful first, whose contents the backend has.

        States without the block at their end are ignored.
        """
        blocks = [(key, block_id) for kind, key, block_id in entries if kind == BLOCK]
        self.pool.adopt(blocks)
        self.num_adopted_blocks = len(blocks)
        if self._states is not None:
            found = {key for key, _ in blocks}
            states = [(key, slot) for kind, key, slot in entries if kind == STATE and key in found]
            self._states.pool.adopt(states)

    def check(self, running: abc.Collection[Sequence]) -> None:
        """Raise RuntimeError if a block or a state's slot is lost or owned twice."""
        self.pool.check(running)
        if self._states is not None:
            self._states.check(running)
