"""The changes that a request makes to its row of logits before a token is drawn, in numpy.

A row may be broken, so a caller has numpy's warnings off.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from service.engine.core.sequences.sequence import Sequence
from service.engine.sampler.constraint_mask import constraint_changes
from service.engine.sampler.named_tokens import NamedTokens
from service.engine.sampler.token_counts import TokenCounts
from service.engine.watermark import Watermark

Row = NDArray[np.float32]  # [vocabulary]

_LIMITS = np.finfo(np.float32)


def apply_penalties(row: Row, sequence: Sequence, used: TokenCounts) -> None:
    """Repetition, frequency and presence penalties, as `penalties.Penalties` defines them, in place."""
    sampling = sequence.request.sampling
    repetition, frequency, presence = (
        np.float32(each)
        for each in (sampling.repetition_penalty, sampling.frequency_penalty, sampling.presence_penalty)
    )
    logits, counts = row[used.ids], used.counts
    logits = np.where(logits > 0, logits / repetition, logits * repetition)
    logits -= frequency * counts
    logits -= presence * (counts > 0)
    row[used.ids] = logits.clip(_LIMITS.min, _LIMITS.max)


def add_bias(row: Row, named: NamedTokens) -> None:
    """Add the request's logit bias, in place."""
    row[named.biased_ids] += named.biases


def add_watermark(row: Row, sequence: Sequence, watermark: Watermark) -> None:
    """Add `delta` to the green tokens, in place."""
    greens = watermark.greens(sequence.token_ids[-1:], np.arange(len(row), dtype=np.uint32))[0]
    row += np.float32(watermark.delta) * greens


def forbid_early_end(row: Row, sequence: Sequence, named: NamedTokens) -> None:
    """Set the tokens that would end a choice before its `min_tokens` to -inf, in place."""
    if sequence.num_generated_tokens < sequence.request.stopping.min_tokens:
        row[named.end_ids] = -np.inf


def apply_constraint(row: Row, sequence: Sequence) -> None:
    """Set the tokens that the output constraint doesn't allow to -inf, in place. Raises ConstraintFailed."""
    if sequence.constraint is not None and not sequence.constraint.is_free:
        row += constraint_changes(sequence.constraint, len(row))
