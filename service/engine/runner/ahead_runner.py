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


class _Ahead(NamedTuple):
    """A step of decodes that was computed ahead. Its logits are valid until the next step is computed."""

    logits: Tensor
    rows: dict[Sequence, int]

    def rows_of(self, items: abc.Sequence[ScheduledSequence]) -> dict[Sequence, int]:
        """Return the rows of those items of the next step that were computed."""
        return {
            each.sequence: self.rows[each.sequence] for each in items if each.sequence in self.rows and not each.draft
        }


class _Queued(NamedTuple):
    """Tokens that the device chooses for some of a step's sequences."""

    sequences: abc.Sequence[Sequence]
    pending: PendingTokens


class AheadRunner(ModelRunner[Tensor]):
    """A ModelRunner on a device. Before it waits for a step's tokens, it queues the decodes of `Step.following`.

    The next step samples from their logits, unless it has no use for them: a sequence has ended, was preempted, has
    drafts, or got another token by its constraint. What they have stored in blocks meanwhile is stored again if it is
    ever read.
    """

    def __init__(self, backend: Backend[Tensor], sampler: TorchSampler, *arguments: Any, **options: Any) -> None:
        """The other arguments are those of `ModelRunner`."""
        super().__init__(backend, sampler, *arguments, **options)
        self._torch_sampler = sampler
        self._ahead: _Ahead | None = None

    @property
    def computes_ahead(self) -> bool:
        """Whether it continues the `following` sequences of a step."""
        return isinstance(self.backend, ContinuesDecodes) and self.backend.continues_decodes

    def run(self, step: Step) -> abc.Sequence[SampledToken | SequenceError | None] | None:
        """Compute the step as ModelRunner does, without the items that were computed ahead."""
        ahead, self._ahead = self._ahead, None
        rows = {} if ahead is None else ahead.rows_of(step.items)
        if not rows and not step.following:
            return super().run(step)
        queued = []
        if ahead is not None and rows:  # before another step's logits replace these
            chosen = list(rows.values())
            is_whole = chosen == list(range(len(ahead.logits)))
            queued.append(self._sample_later(ahead.logits, list(rows), None if is_whole else chosen))
        rest = [item for item in step.items if item.sequence not in rows]
        results: dict[Sequence, SampledToken | SequenceError | None] = {}
        if rest and step.following:  # all of them sample, one row each
            self._prepare_thread()
            queued.append(self._sample_later(self._logits_of(rest), [item.sequence for item in rest]))
        elif rest:
            found = super().run(Step(rest, [], []))
            assert found is not None  # noqa: S101  no step on a device ends early
            results = {item.sequence: result for item, result in zip(rest, found, strict=True)}
        if step.following:
            self._ahead = self._continue(step.following, queued)
        for sequences, pending in queued:
            results |= zip(sequences, pending.finish(), strict=True)
            if self._ahead is not None:
                for sequence in pending.replaced:
                    self._ahead.rows.pop(sequence, None)
        return [results[item.sequence] for item in step.items]

    def _logits_of(self, items: list[ScheduledSequence]) -> Tensor:
        logits = self._forward(Step(items, [], []))
        assert logits is not None  # noqa: S101  no step on a device ends early
        return logits

    def _sample_later(
        self, logits: Tensor, sequences: abc.Sequence[Sequence], rows: abc.Sequence[int] | None = None
    ) -> _Queued:
        return _Queued(sequences, self._torch_sampler.start(logits, sequences, rows))

    def _continue(self, sequences: abc.Sequence[Sequence], queued: list[_Queued]) -> _Ahead:
        """Queue the copies of a step's results, and then the decodes of the tokens in them."""
        for _, pending in queued:
            pending.copy()
        backend = self.backend
        assert isinstance(backend, ContinuesDecodes)  # noqa: S101  otherwise no sequence is following
        batch = make_following_batch(sequences, self.block_size, self._adapter_slots)
        logits = backend.forward_following(batch, _tokens(sequences, queued))
        return _Ahead(logits, {each: row for row, each in enumerate(sequences)})


def _tokens(sequences: abc.Sequence[Sequence], queued: list[_Queued]) -> Tensor:
    """Return the tokens that the device chooses for `sequences`, int64 [sequences]."""
    tokens = torch.cat([pending.token_ids for _, pending in queued])
    rows = {sequence: row for row, sequence in enumerate(each for of, _ in queued for each in of)}
    wanted = [rows[sequence] for sequence in sequences]
    if wanted == list(range(len(rows))):
        return tokens
    return tokens.index_select(0, to_device(np.array(wanted), tokens.device))
