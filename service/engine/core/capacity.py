"""Admission to the batch: decide whether one more sequence may run, and which one is preempted for it."""

from __future__ import annotations

import math
from collections import abc
from operator import attrgetter

from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.blocks.block_tables import CachedPrefix
from service.engine.core.queue.fair_queue import FairQueue, KeyQueue, displaced_key
from service.engine.core.sequences.sequence import Sequence
from service.engine.core.step_times import StepTimes
from service.engine.interface.config import EngineConfig

_MIN_RUNNING = 2  # sequences, regardless of their cost; with one, a single key could keep all others waiting
_by_order = attrgetter("order")


class AdmissionCapacity:
    """Admission capacity: batch slots and cache blocks, with each API key's share. Does not change any state."""

    def __init__(
        self,
        config: EngineConfig,
        pool: BlockPool,
        queue: FairQueue,
        step_times: StepTimes,
        running: abc.Collection[Sequence],
    ) -> None:
        self._max_sequences = config.max_batch_sequences
        self._max_chunk = config.max_batch_tokens
        self._pool = pool
        self._queue = queue
        self._step_times = step_times
        self._running = running

    @property
    def max_running(self) -> int:
        """The number of sequences that may run at a time, by batch slots and by `max_decode_slowdown`."""
        return int(min(self._max_sequences, max(_MIN_RUNNING, self._step_times.max_decodes)))

    def has_slot(self, key: KeyQueue) -> bool:
        """Return whether one more sequence of a key may run.

        A key below its share does not wait for keys above theirs: up to twice `max_running` sequences run until those
        keys' sequences have ended. That costs less than preempting them and computing them again. Batches wait for
        all others, which preempt them.
        """
        limit = self.max_running
        if len(self._running) < limit:
            return True
        if key.is_batch or self._batches(()):
            return False
        if len(self._running) >= min(2 * limit, self._max_sequences):
            return False
        return displaced_key(key, self._slots_held(), limit) is not None

    def displaced(self, key: KeyQueue, admitted: abc.Collection[Sequence]) -> Sequence | None:
        """Return the sequence, not in `admitted`, whose slot the first of `key` may take if all slots are taken."""
        if key.is_batch:
            return None
        if batches := self._batches(admitted):
            return self._queue.last(batches)
        of_others = self._last(displaced_key(key, self._slots_held(), self.max_running), admitted)
        return of_others or self._batch_work(key, admitted)

    def has_blocks(self, sequence: Sequence, found: CachedPrefix) -> bool:
        """Return whether enough blocks are free to start a sequence. `found` is its cached prefix.

        Every running sequence must first be able to complete its prompt and to grow by one block in each group;
        otherwise it would be preempted immediately, or preempt the new sequence.
        """
        pool = self._pool
        num_computed = found.num_blocks * pool.block_size
        num_needed = self._num_missing_blocks(sequence, num_computed, found.tables)
        num_reserved = len(pool.groups) * len(self._running) + pool.num_free_among(found)
        for each in self._running:
            num_reserved += self._num_missing_blocks(each, each.num_computed_tokens, each.block_tables)
        return num_needed + num_reserved <= pool.num_free_blocks

    def displaced_blocks(self, key: KeyQueue, admitted: abc.Collection[Sequence]) -> Sequence | None:
        """Return the sequence, not in `admitted`, whose blocks a sequence of `key` may take if too few are free."""
        if key.is_batch:
            return None
        if batches := self._batches(admitted):
            return self._queue.last(batches)
        held = dict.fromkeys(self._queue.active, 0)
        for sequence in self._running:
            held[self._queue.key_of(sequence)] += sequence.num_blocks
        return self._last(displaced_key(key, held, self._pool.num_blocks), admitted) or self._batch_work(key, admitted)

    def _num_missing_blocks(
        self, sequence: Sequence, num_computed: int, tables: abc.Sequence[abc.Sequence[int]]
    ) -> int:
        """Return the number of blocks beyond those in `tables` that the sequence's present tokens need at a time.

        They are computed from `num_computed` on, in chunks of at most `max_batch_tokens`.
        """
        block_size = self._pool.block_size
        num_tokens = len(sequence.token_ids)
        chunk = min(self._max_chunk, num_tokens - num_computed)
        num_missing = 0
        for index, group in enumerate(self._pool.groups):
            table = tables[index] if index < len(tables) else ()
            num_held = len(table) - min(len(table), group.first_visible(num_computed) // block_size)
            num_missing += max(0, group.max_blocks(num_tokens, chunk, block_size) - num_held)
        return num_missing

    def _batches(self, admitted: abc.Collection[Sequence]) -> list[Sequence]:
        """Return the running sequences of batches that are not in `admitted`."""
        if not self._queue.has_batches:
            return []
        return [each for each in self._running if each.request.is_batch and each not in admitted]

    def _slots_held(self) -> dict[KeyQueue, int]:
        return {key: key.num_running for key in self._queue.active}

    def _batch_work(self, key: KeyQueue, admitted: abc.Collection[Sequence]) -> Sequence | None:
        """Return the last sequence of a key without a service level, if it is after the first waiting one.

        Return None unless the first token of the waiting one is due.
        """
        first = key.waiting[0]
        if first.group.first_token_due == math.inf:
            return None
        theirs = [
            each
            for each in self._running
            if self._queue.key_of(each) is key and not any(each.request.service_level) and each not in admitted
        ]
        last = max(theirs, key=_by_order, default=None)
        return last if last is not None and last.order > first.order else None

    def _last(self, key: KeyQueue | None, admitted: abc.Collection[Sequence]) -> Sequence | None:
        """Return a key's last sequence, or None if it runs only one, which could otherwise be preempted forever."""
        if key is None or key.num_running < 2:
            return None
        theirs = [each for each in self._running if self._queue.key_of(each) is key and each not in admitted]
        return max(theirs, key=_by_order, default=None)
