"""Tokens that a request raises, lowers or forbids: logit bias, minimal length, output constraints."""

from __future__ import annotations

from collections import abc

import numpy as np
import torch
from torch import Tensor

from service.engine.sequence import Sequence
from service.generation.errors import ConstraintFailed

# By a byte of a mask, what eight logits change by: to add this is several times faster than to fill by a mask of bits.
_CHANGES = np.where(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), 0, -np.inf)
_CHANGES = _CHANGES.astype(np.float32)


def add_bias(logits: Tensor, sequences: abc.Sequence[Sequence]) -> None:
    """Add each request's logit bias to its row of `logits` [rows, vocabulary], in place."""
    entries = [
        (row, token_id, bias)
        for row, sequence in enumerate(sequences)
        for token_id, bias in sequence.request.sampling.logit_bias.items()
        if 0 <= token_id < logits.shape[1]
    ]
    if entries:
        rows, token_ids, biases = zip(*entries, strict=True)
        where = torch.tensor(rows, device=logits.device), torch.tensor(token_ids, device=logits.device)
        logits[where] += torch.tensor(biases, dtype=logits.dtype, device=logits.device)


def forbid_early_end(logits: Tensor, sequences: abc.Sequence[Sequence]) -> None:
    """Set the tokens that would end a choice before its `min_tokens` to -inf, in place."""
    entries = [
        (row, token_id)
        for row, sequence in enumerate(sequences)
        if sequence.num_generated_tokens < sequence.request.stopping.min_tokens
        for token_id in sequence.end_token_ids
        if 0 <= token_id < logits.shape[1]
    ]
    if entries:
        rows, token_ids = zip(*entries, strict=True)
        logits[torch.tensor(rows, device=logits.device), torch.tensor(token_ids, device=logits.device)] = -torch.inf


def apply_constraints(logits: Tensor, sequences: abc.Sequence[Sequence]) -> dict[int, ConstraintFailed]:
    """Set the tokens that a row's output constraint does not allow to -inf, in place; return the rows that failed."""
    failures: dict[int, ConstraintFailed] = {}
    rows, masks = [], []
    vocab_size = logits.shape[1]
    for row, sequence in enumerate(sequences):
        if sequence.constraint is None:
            continue
        words = np.zeros(-(-vocab_size // 32), dtype=np.int32)
        try:
            sequence.constraint.fill_mask(words)
        except BaseException as error:  # noqa: BLE001 - foreign code, which may even panic: this row's failure alone
            failures[row] = ConstraintFailed("the output constraint failed")
            failures[row].__cause__ = error
            continue
        rows.append(row)
        masks.append(words)
    if rows:
        changes = _CHANGES.take(np.stack(masks).view(np.uint8), axis=0).reshape(len(rows), -1)[:, :vocab_size]
        logits.index_add_(0, torch.tensor(rows, device=logits.device), torch.from_numpy(changes).to(logits.device))
    return failures
