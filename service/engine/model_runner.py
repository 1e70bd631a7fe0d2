"""The computing half of the engine: a step in, sampled tokens out.

Owns the backend and the sampler and turns the scheduler's step into one batch for the model. Only the engine's thread
calls it. It decides nothing: which tokens are computed, and where they are stored, is the scheduler's word.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from service.engine.core import SampledToken
from service.engine.models.backend import Backend
from service.engine.models.batch import Batch, Span
from service.engine.sampler import Sampler
from service.engine.sampler.logprobs import logprobs_of
from service.engine.scheduler import ScheduledSequence, Step
from service.engine.sequence import Sequence
from service.engine.watermark import Watermark
from service.generation.errors import SequenceError
from service.generation.output import TokenLogprob


class ModelRunner:
    """A core.Runner over a backend whose cache has `num_blocks` blocks of `block_size` slots."""

    def __init__(
        self,
        backend: Backend,
        num_blocks: int,
        block_size: int,
        device: torch.device,
        *,
        watermark: Watermark = Watermark(),  # noqa: B008  immutable
        num_threads: int | None = None,
    ) -> None:
        """`num_threads` None leaves torch's own number."""
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._backend = backend
        self._device = device
        self._sampler = Sampler(watermark)
        self._prompt_logprobs: dict[Sequence, list[TokenLogprob]] = {}  # of prompts that are not yet computed whole
        self._num_threads = num_threads
        self._thread_is_ready = False
        backend.allocate(num_blocks, block_size)

    def run(self, step: Step) -> Rows[SampledToken | SequenceError | None]:
        """Compute the step; one result for each of `step.items`, in their order, None where it does not sample."""
        if not self._thread_is_ready:
            self._prepare_thread()
        logits = self._take_prompt_logprobs(self._backend.forward(self._batch(step.items)), step.items)
        sampling = [item.sequence for item in step.items if item.samples]
        tokens = iter(self._sampler.sample(logits, sampling) if sampling else ())
        return [
            self._with_prompt_logprobs(item.sequence, next(tokens)) if item.samples else None for item in step.items
        ]

    def _prepare_thread(self) -> None:
        """What torch keeps for each thread, for the engine's; other engines of the process have theirs."""
        # Numbers below 1e-38, of which softmax makes many, cost 10 to 50 times the others.
        torch.set_flush_denormal(True)
        if self._num_threads is not None:
            torch.set_num_threads(self._num_threads)
        self._thread_is_ready = True

    def release(self, sequence: Sequence) -> None:
        """Forget what is kept for a sequence: it has ended, or it was preempted and will be computed again."""
        self._sampler.release(sequence)
        self._prompt_logprobs.pop(sequence, None)

    def _take_prompt_logprobs(self, logits: Tensor, items: Rows[ScheduledSequence]) -> Tensor:
        """Keep the logprobs of the prompts' tokens that are asked for; return the rows of logits to sample from."""
        if not any(item.sequence.needs_prompt_logprobs for item in items):
            return logits
        sampled, row = [], 0
        for item in items:
            sequence, end = item.sequence, row + _num_rows(item)
            if item.samples:
                sampled.append(end - 1)
            num_prompt_rows = end - row - item.samples
            if sequence.request.prompt_logprobs is not None and num_prompt_rows:
                start = sequence.num_computed_tokens + 1
                token_ids = sequence.token_ids[start : start + num_prompt_rows]
                found = logprobs_of(logits[row : row + num_prompt_rows], token_ids, sequence.request.prompt_logprobs)
                self._prompt_logprobs.setdefault(sequence, []).extend(found)
            row = end
        return logits.index_select(0, self._tensor(np.array(sampled, dtype=np.int64)))

    def _with_prompt_logprobs(
        self, sequence: Sequence, result: SampledToken | SequenceError
    ) -> SampledToken | SequenceError:
        found = self._prompt_logprobs.pop(sequence, ())
        return replace(result, prompt_logprobs=found) if found and isinstance(result, SampledToken) else result

    def _batch(self, items: Rows[ScheduledSequence]) -> Batch:
        token_ids: list[int] = []
        output_rows: list[int] = []
        positions, slots, spans = [], [], []
        for item in items:
            sequence, start = item.sequence, item.sequence.num_computed_tokens
            end = start + item.num_new_tokens
            spans.append(Span(len(token_ids), item.num_new_tokens, end, sequence.block_table))
            token_ids += sequence.token_ids[start:end]
            positions.append(np.arange(start, end))
            slots.append(self._slots(sequence.block_table, start, end))
            output_rows += range(len(token_ids) - _num_rows(item), len(token_ids))
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


def _num_rows(item: ScheduledSequence) -> int:
    """How many of the item's last tokens need a row of logits."""
    return item.num_new_tokens if item.sequence.needs_prompt_logprobs else int(item.samples)
