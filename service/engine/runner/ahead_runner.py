"""A runner that lets a device compute the next decodes while the host reads the tokens that they continue."""

from __future__ import annotations

from collections import abc
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from service.engine.core.batch import make_following_batch
from service.engine.core.engine_core import SampledToken
from service.engine.core.sequences.sequence import Sequence
from service.engine.core.step import ScheduledSequence, Step
from service.engine.device.transfer import to_device
from service.engine.models.interface.backend import Backend, ContinuesDecodes
from service.engine.runner.model_runner import ModelRunner
from service.engine.sampler.torch_sampler import PendingTokens, TorchSampler
from service.generation.errors import SequenceError


class _Expected(NamedTuple):
    """A decode that was computed ahead: its row, and what identifies the sequence's state that it continues."""

    row: int
    num_tokens: int
    num_preemptions: int


class _Ahead(NamedTuple):
    """A step of decodes that was computed ahead."""

    pending: PendingTokens
    expected: dict[Sequence, _Expected]

    def rows_of(self, items: abc.Sequence[ScheduledSequence]) -> dict[Sequence, int]:
        """Return the rows of those items that are decodes of the expected tokens."""
        rows = {}
        for sequence, num_new, samples, draft in items:
            found = self.expected.get(sequence)
            if found is None or not samples or num_new != 1 or draft:
                continue
            if (found.num_tokens, found.num_preemptions) == (len(sequence.token_ids), sequence.num_preemptions):
                rows[sequence] = found.row
        return rows


class _Queued(NamedTuple):
    """Tokens that the device chooses, and the rows of those that belong to the step."""

    pending: PendingTokens
    rows: dict[Sequence, int]


class AheadRunner(ModelRunner[Tensor]):
    """A ModelRunner on a device. Before it waits for a step's tokens, it queues the decodes of `Step.following`.

    These are taken over by the next step, unless it has no use for them: a sequence has ended, was preempted, or has
    drafts. What they have stored in blocks meanwhile lies behind the tokens of any sequence, or is the same again.
    """

    def __init__(self, backend: Backend[Tensor], sampler: TorchSampler, *arguments: Any, **options: Any) -> None:
        """The other arguments are those of `ModelRunner`."""
        super().__init__(backend, sampler, *arguments, **options)
        self._torch_sampler = sampler
        self._ahead: _Ahead | None = None
        self._is_plain: dict[Sequence, bool] = {}

    @property
    def computes_ahead(self) -> bool:
        """Whether it continues the `following` sequences of a step."""
        return isinstance(self.backend, ContinuesDecodes) and self.backend.continues_decodes

    def run(self, step: Step) -> abc.Sequence[SampledToken | SequenceError | None] | None:
        """Compute the step as ModelRunner does, without the items that were computed ahead."""
        ahead, self._ahead = self._ahead, None
        rows = {} if ahead is None else ahead.rows_of(step.items)
        following = step.following
        if following and not all(map(self._is_sampled_plainly, step.items)):
            following = ()
        if not rows and not following:
            return super().run(step)
        queued = [] if ahead is None or not rows else [_Queued(ahead.pending, rows)]
        rest = [item for item in step.items if item.sequence not in rows]
        results: dict[Sequence, SampledToken | SequenceError | None] = {}
        if following and rest:
            queued.append(self._queue(rest))
        elif rest:
            found = super().run(Step(rest, [], []))
            assert found is not None  # noqa: S101  no step on a device ends early
            results = {item.sequence: result for item, result in zip(rest, found, strict=True)}
        if following:
            self._ahead = self._continue(following, queued)
        for pending, of_step in queued:
            tokens = pending.finish()
            results |= {sequence: tokens[row] for sequence, row in of_step.items()}
        return [results[item.sequence] for item in step.items]

    def release(self, sequence: Sequence) -> None:
        """Drop the state of a sequence that has ended, or was preempted and will be computed again."""
        super().release(sequence)
        self._is_plain.pop(sequence, None)

    def _is_sampled_plainly(self, item: ScheduledSequence) -> bool:
        sequence = item.sequence
        found = self._is_plain.get(sequence)
        if found is None:
            found = self._is_plain[sequence] = self._torch_sampler.is_plain(sequence)
        return found

    def _queue(self, items: list[ScheduledSequence]) -> _Queued:
        """Queue the computation of items that all sample, one row each."""
        self._prepare_thread()
        logits = self._forward(Step(items, [], []))
        assert logits is not None  # noqa: S101  no step on a device ends early
        sequences = [item.sequence for item in items]
        return _Queued(self._torch_sampler.start(logits, sequences), {each: row for row, each in enumerate(sequences)})

    def _continue(self, sequences: abc.Sequence[Sequence], queued: list[_Queued]) -> _Ahead:
        """Queue the copies of the results, and then the decodes of the tokens in them."""
        for pending, _ in queued:
            pending.copy()
        assert isinstance(self.backend, ContinuesDecodes)  # noqa: S101  otherwise no sequence is following
        batch = make_following_batch(sequences, self.block_size, self._adapter_slots)
        logits = self.backend.forward_following(batch, _tokens(sequences, queued))
        pending = self._torch_sampler.start(logits, sequences, num_unread=1)
        return _Ahead(
            pending,
            {each: _Expected(row, len(each.token_ids) + 1, each.num_preemptions) for row, each in enumerate(sequences)},
        )


def _tokens(sequences: abc.Sequence[Sequence], queued: list[_Queued]) -> Tensor:
    """Return the tokens that the device chooses for the sequences, int64 [sequences]."""
    start = 0
    rows: dict[Sequence, int] = {}
    for pending, of_step in queued:
        rows |= {sequence: start + row for sequence, row in of_step.items()}
        start += len(pending.token_ids)
    wanted = [rows[sequence] for sequence in sequences]
    tokens = torch.cat([pending.token_ids for pending, _ in queued])
    if wanted == list(range(start)):
        return tokens
    return tokens.index_select(0, to_device(np.array(wanted), tokens.device))
