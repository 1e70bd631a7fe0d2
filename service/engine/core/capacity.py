"""Decide whether one more sequence may run, and which one is preempted for it: batch slots and cache blocks."""

from __future__ import annotations

from collections import abc
from operator import attrgetter

from service.engine.config import EngineConfig
from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.fair_queue import FairQueue, KeyQueue, gives_way
from service.engine.core.sequences.sequence import Sequence
from service.engine.core.step_times import StepTimes

_MIN_RUNNING = 2  # sequences, however long a step gets by the second: or one key would keep all others out
_by_order = attrgetter("order")


class AdmissionCapacity:
    """What of it there is, and whose it is. It looks at what the scheduler has, and changes nothing."""

    def __init__(
        self,
        config: EngineConfig,
        pool: BlockPool,
        queue: FairQueue,
        step_times: StepTimes,
        running: abc.Collection[Sequence],
    ) -> None:
        self._max_sequences = config.max_batch_sequences
        self._pool = pool
        self._queue = queue
        self._step_times = step_times
        self._running = running

    @property
    def max_running(self) -> int:
        """Sequences that may run at a time: as many as there are places, and no more than let a step be short."""
        return int(min(self._max_sequences, max(_MIN_RUNNING, self._step_times.max_decodes)))

    def has_place(self, key: KeyQueue) -> bool:
        """Whether one more sequence of a key may run.

        A key that has less than its share needn't wait for those that have more: both run, up to twice as many as
        otherwise, until theirs have ended. That costs less than to compute them again later.
        """
        limit = self.max_running
        if len(self._running) < limit:
            return True
        if len(self._running) >= min(2 * limit, self._max_sequences):
            return False
        return gives_way(key, self._places_held(), limit) is not None

    def displaced(self, key: KeyQueue, begun: abc.Collection[Sequence]) -> Sequence | None:
        """In whose place a sequence of `key` may run where all places are taken; none that has just `begun`."""
        return self._last(gives_way(key, self._places_held(), self.max_running), begun)

    def has_blocks(self, sequence: Sequence, found: list[int]) -> bool:
        """Whether enough blocks are free for a sequence to begin, with those that were found for it.

        What runs must be able to end its prompt, and then to grow by a block, before anything else begins; or it would
        be preempted at once, or preempt the newcomer.
        """
        pool = self._pool
        num_needed = pool.num_blocks_for(len(sequence.token_ids)) - len(found)
        num_reserved = len(self._running) + pool.num_free_among(found)
        num_reserved += sum(pool.num_missing_blocks(each) for each in self._running)
        return num_needed + num_reserved <= pool.num_free_blocks

    def displaced_blocks(self, key: KeyQueue, begun: abc.Collection[Sequence]) -> Sequence | None:
        """Whose blocks a sequence of `key` may have, where too few are free."""
        held = dict.fromkeys(self._queue.active, 0)
        for sequence in self._running:
            held[self._queue.of(sequence)] += len(sequence.block_table)
        return self._last(gives_way(key, held, self._pool.num_blocks), begun)

    def _places_held(self) -> dict[KeyQueue, int]:
        return {key: key.num_running for key in self._queue.active}

    def _last(self, key: KeyQueue | None, begun: abc.Collection[Sequence]) -> Sequence | None:
        """The last sequence of a key; None if it is its only one, which might never end if it were to give way."""
        if key is None or key.num_running < 2:
            return None
        theirs = [each for each in self._running if self._queue.of(each) is key and each not in begun]
        return max(theirs, key=_by_order, default=None)
