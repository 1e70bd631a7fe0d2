"""Decode graphs, recorded for some batch sizes and replayed, so that a step takes one launch instead of hundreds.

A recording reads and writes the same memory in each replay. So a step's batch is padded to a recorded size, its arrays
are copied to those that the recording reads, and the padding rows are removed from the result.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from service.engine.core.batch import Batch
from service.engine.models.attention.paged_inputs import PagedInputs

_log = logging.getLogger(__name__)


class Recording(Protocol):
    """Recorded device work."""

    @property
    def result(self) -> Tensor:
        """The tensor to which each replay writes its output."""

    def replay(self) -> None:
        """Run the work again with the current contents of its inputs."""


class Recorder(Protocol):
    """Records work on a device."""

    def record(self, work: Callable[[], Tensor]) -> Recording:
        """Record `work`. It must neither wait for the device nor read from it."""

    def free_bytes(self) -> int:
        """Return the free bytes of the device."""


def sizes(max_sequences: int) -> list[int]:
    """Return the batch sizes to record: powers of two up to 16, then multiples of 16, and `max_sequences` itself.

    A batch of more than 16 is padded with at most 15 rows, and a smaller one with fewer than half of its rows.
    """
    steps = [1, 2, 4, 8, *range(16, max_sequences, 16)]
    return [*(step for step in steps if step < max_sequences), max_sequences]


@dataclass(frozen=True, slots=True)
class GraphLimits:
    """The limits of recordings: sequences, context length, and device memory."""

    max_sequences: int
    max_context: int  # tokens
    max_bytes: int


class DecodeGraphs:
    """The decode graphs of one model over one cache."""

    def __init__(
        self,
        compute: Callable[[PagedInputs], Tensor],
        limits: GraphLimits,
        block_size: int,
        scratch_block: int,
        device: torch.device,
    ) -> None:
        """`compute` stores the keys and values of decodes and returns their logits [sequences, vocabulary]."""
        self.num_replays = 0
        self._compute = compute
        self._limits = limits
        self._block_size = block_size
        self._scratch_block = scratch_block
        self._device = device
        self._num_columns = -(-limits.max_context // block_size)
        self._recorded: dict[int, tuple[PagedInputs, Recording]] = {}

    @property
    def recorded(self) -> list[int]:
        """The recorded batch sizes, in ascending order."""
        return sorted(self._recorded)

    def record(self, recorder: Recorder) -> None:
        """Record the sizes in descending order, until the memory limit. Smaller ones reuse the largest one's memory."""
        all_sizes, began, free = sizes(self._limits.max_sequences)[::-1], time.monotonic(), recorder.free_bytes()
        for number, size in enumerate(all_sizes, 1):
            inputs = self._inputs(size)
            recording = recorder.record(lambda inputs=inputs: self._compute(inputs))  # type: ignore[misc]
            self._recorded[size] = inputs, recording
            taken = free - recorder.free_bytes()
            if taken > self._limits.max_bytes:
                message = "no more decode graphs are captured: %d of %d sizes took %.0f MB, the limit is %.0f MB"
                _log.warning(message, number, len(all_sizes), taken / 1e6, self._limits.max_bytes / 1e6)
                break
            _log.info(
                "captured decode graph of %d sequences, %d of %d, %.0f MB", size, number, len(all_sizes), taken / 1e6
            )
        _log.info("captured %d decode graphs in %.1f s", len(self._recorded), time.monotonic() - began)

    def run(self, batch: Batch, token_ids: Tensor | None = None) -> Tensor | None:
        """Return the logits [sequences, vocabulary] of a batch, valid until the next call; None if not recorded.

        `token_ids` [sequences] on the device take the place of the batch's.
        """
        num_sequences = len(batch.context_lengths)
        size = self._size_for(num_sequences) if is_decode(batch) else None
        if size is None:
            return None
        inputs, recording = self._recorded[size]
        self._fill(inputs, PagedInputs.from_batch(self._padded(batch, size), self._block_size, self._device))
        if token_ids is not None:
            inputs.token_ids[:num_sequences].copy_(token_ids)
        recording.replay()
        self.num_replays += 1
        return recording.result[:num_sequences]

    def _size_for(self, num_sequences: int) -> int | None:
        """Return the smallest recorded size that is large enough."""
        return min((size for size in self._recorded if size >= num_sequences), default=None)

    def _inputs(self, size: int) -> PagedInputs:
        """Allocate the inputs of a recording, filled with padding rows."""
        empty = np.zeros(0, np.int32)
        none = Batch(empty, empty, np.zeros(1, np.int32), empty, np.zeros((0, self._num_columns), np.int32), empty)
        inputs = PagedInputs.from_batch(self._padded(none, size), self._block_size, self._device)
        tensors = {each.name: getattr(inputs, each.name) for each in fields(inputs)}
        own: dict[str, Any] = {name: each.clone() for name, each in tensors.items() if isinstance(each, Tensor)}
        return replace(inputs, **own, max_context=self._limits.max_context)

    def _fill(self, inputs: PagedInputs, given: PagedInputs) -> None:
        """Copy a step's inputs to a recording's inputs. Table columns after a context's last block are not read."""
        inputs.token_ids.copy_(given.token_ids)
        inputs.positions.copy_(given.positions)
        inputs.slots.copy_(given.slots)
        inputs.context_lengths.copy_(given.context_lengths)
        inputs.block_tables[:, : given.block_tables.shape[1]].copy_(given.block_tables)

    def _padded(self, batch: Batch, size: int) -> Batch:
        """Pad the batch to `size` sequences with rows of one token in the scratch block."""
        num_rows = len(batch.context_lengths)
        missing = size - num_rows
        of_scratch = np.full((missing, batch.block_tables.shape[1]), self._scratch_block, np.int32)
        rows = np.arange(size + 1, dtype=np.int32)
        return replace(
            batch,
            token_ids=np.pad(batch.token_ids, (0, missing)),
            positions=np.pad(batch.positions, (0, missing)),
            row_offsets=rows,
            context_lengths=np.pad(batch.context_lengths, (0, missing), constant_values=1),
            block_tables=np.concatenate((batch.block_tables, of_scratch)),
            output_rows=rows[:size],
        )


def is_decode(batch: Batch) -> bool:
    """Return True if each sequence has one token with an output row, and the batch has no images or adapters."""
    num_sequences = len(batch.context_lengths)
    one_each = len(batch.token_ids) == num_sequences == len(batch.output_rows)
    return one_each and not batch.images and not batch.adapter_rows
