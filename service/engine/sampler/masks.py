"""Tokens that a request raises, lowers or forbids: logit bias, minimal length, output constraints."""

from __future__ import annotations

from collections import abc
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from service.engine.core.sequences.sequence import Sequence
from service.engine.device.transfer import to_device
from service.engine.sampler.constraint_mask import constraint_changes, constraint_words
from service.engine.sampler.named_tokens import NamedTokensTable
from service.generation.errors import ConstraintFailed


class NamedTokenMasks:
    """The logit bias and the minimal length of all sequences of a step at once."""

    def __init__(self) -> None:
        self._named_tokens = NamedTokensTable()

    def add_bias(self, logits: Tensor, sequences: abc.Sequence[Sequence]) -> None:
        """Add each request's logit bias to its row of `logits` [rows, vocabulary], in place."""
        rows = [row for row, sequence in enumerate(sequences) if sequence.request.sampling.logit_bias]
        if rows:
            named = [self._named_tokens.of(sequences[row], logits.shape[1]) for row in rows]
            where = _places(logits, rows, [each.biased_ids for each in named])
            logits[where] += to_device(np.concatenate([each.biases for each in named]), logits.device)

    def forbid_early_end(self, logits: Tensor, sequences: abc.Sequence[Sequence]) -> None:
        """Set the tokens that would end a choice before its `min_tokens` to -inf, in place."""
        rows = [
            row
            for row, sequence in enumerate(sequences)
            if sequence.num_generated_tokens < sequence.request.stopping.min_tokens
        ]
        if rows:
            named = [self._named_tokens.of(sequences[row], logits.shape[1]) for row in rows]
            logits[_places(logits, rows, [each.end_ids for each in named])] = -torch.inf


def _places(
    logits: Tensor, rows: abc.Sequence[int], token_ids: abc.Sequence[NDArray[np.int64]]
) -> tuple[Tensor, Tensor]:
    """Indices of `logits`: the tokens of each row."""
    row_index = np.repeat(np.array(rows), [len(ids) for ids in token_ids])
    return to_device(row_index, logits.device), to_device(np.concatenate(token_ids), logits.device)


def apply_constraints(logits: Tensor, sequences: abc.Sequence[Sequence]) -> dict[int, ConstraintFailed]:
    """Set the tokens that a row's output constraint does not allow to -inf, in place; return the rows that failed."""
    failures: dict[int, ConstraintFailed] = {}
    # Words of bits are 32 times less to bring to a device; a CPU adds floats faster than it takes bits apart.
    of = constraint_changes if logits.device.type == "cpu" else constraint_words
    rows: list[int] = []
    masks: list[NDArray[Any]] = []
    for row, sequence in enumerate(sequences):
        if sequence.constraint is None or sequence.constraint.is_free:
            continue
        try:
            masks.append(of(sequence.constraint, logits.shape[1]))
            rows.append(row)
        except ConstraintFailed as failure:
            failures[row] = failure
    if rows:
        added = to_device(np.stack(masks), logits.device)
        if added.dtype is torch.int32:
            added = _apart(added)[:, : logits.shape[1]]
        logits.index_add_(0, to_device(np.array(rows), logits.device), added)
    return failures


def _apart(words: Tensor) -> Tensor:
    """By the bits of `words` [rows, words]: 0 where a bit is set, else minus infinity, [rows, 32 * words]."""
    bits = words[:, :, None] >> torch.arange(32, dtype=torch.int32, device=words.device) & 1
    return torch.zeros(bits.shape, device=words.device).masked_fill_(bits == 0, -torch.inf).flatten(1)
