"""Tokens that a request raises, lowers or forbids: logit bias, minimal length, output constraints."""

from __future__ import annotations

from collections import abc

import numpy as np
import torch
from torch import Tensor

from service.engine.sampler.constraint_mask import constraint_changes
from service.engine.sequence import Sequence
from service.generation.errors import ConstraintFailed


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
    rows, changes = [], []
    for row, sequence in enumerate(sequences):
        if sequence.constraint is None:
            continue
        try:
            changes.append(constraint_changes(sequence.constraint, logits.shape[1]))
            rows.append(row)
        except ConstraintFailed as failure:
            failures[row] = failure
    if rows:
        added = torch.from_numpy(np.stack(changes)).to(logits.device)
        logits.index_add_(0, torch.tensor(rows, device=logits.device), added)
    return failures
