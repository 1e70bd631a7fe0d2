"""The computing half of the engine: a step in, sampled tokens out.

Owns the backend and the sampler and turns the scheduler's step into one batch for the model. Only the engine's thread
calls it. It decides nothing: which tokens are computed, and where they are stored, is the scheduler's word.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows

import numpy as np
import torch
from torch import Tensor

from service.engine.core import SampledToken
from service.engine.errors import SequenceError
from service.engine.models.backend import Backend
from service.engine.models.batch import Batch, Span
from service.engine.sampler import Sampler
from service.engine.scheduler import ScheduledSequence, Step
from service.engine.sequence import Sequence
from service.engine.watermark import Watermark


class ModelRunner:
    """A core.Runner over a backend whose cache has `num_blocks` blocks of `block_size` slots."""

    def __init__(
        self,
        backend: Backend,
        num_blocks: int,
        block_size: int,
        device: torch.device,
        watermark: Watermark = Watermark(),  # noqa: B008  immutable
    ) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._backend = backend
        self._device = device
        self._sampler = Sampler(watermark)
        backend.allocate(num_blocks, block_size)

    def run(self, step: Step) -> Rows[SampledToken | SequenceError | None]:
        """Compute the step; one result for each of `step.items`, in their order, None where it does not sample."""
        # Numbers below 1e-38, of which softmax makes many, cost 10 to 50 times the others. The switch is the thread's.
        torch.set_flush_denormal(True)
        logits = self._backend.forward(self._batch(step.items))
        sampling = [item.sequence for item in step.items if item.samples]
        tokens = iter(self._sampler.sample(logits, sampling) if sampling else ())
        return [next(tokens) if item.samples else None for item in step.items]

    def release(self, sequence: Sequence) -> None:
        """Forget what is kept for a sequence: it has ended, or it was preempted and will be computed again."""
        self._sampler.release(sequence)

    def _batch(self, items: Rows[ScheduledSequence]) -> Batch:
        token_ids: list[int] = []
        positions, slots, output_rows, spans = [], [], [], []
        for item in items:
            sequence, start = item.sequence, item.sequence.num_computed_tokens
            end = start + item.num_new_tokens
            spans.append(Span(len(token_ids), item.num_new_tokens, end, sequence.block_table))
            token_ids += sequence.token_ids[start:end]
            positions.append(np.arange(start, end))
            slots.append(self._slots(sequence.block_table, start, end))
            if item.samples:
                output_rows.append(len(token_ids) - 1)
        return Batch(
            token_ids=self._tensor(np.array(token_ids)),
            positions=self._tensor(np.concatenate(positions)),
            slots=self._tensor(np.concatenate(slots)),
            output_rows=self._tensor(np.array(output_rows, dtype=np.int64)),
            spans=spans,
        )

    def _slots(self, block_table: Rows[int], start: int, end: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Where the tokens at positions `start` up to `end` are stored."""
        positions = np.arange(start, end)
        first = start // self.block_size
        blocks = np.array(block_table[first : -(-end // self.block_size)])
        return blocks[positions // self.block_size - first] * self.block_size + positions % self.block_size

    def _tensor(self, values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Tensor:
        return torch.from_numpy(values).to(self._device)
