"""The tokens that remain eligible: top-k, top-p, min-p and typical-p.

Each filter works on the renormalised result of the one before, in transformers' order: top-k, top-p, min-p, typical-p.
The first three all keep the logits above some value, so a row has one cutoff for them. A cutoff is a value and never a
position in a sorted list, so tokens of equal logits are kept or dropped together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from service.engine.device.transfer import to_device
from service.generation.requests.parameters import SamplingParams

_FEW = 512  # up to this number the largest logits are picked; for more, whole rows are sorted


def truncate(logits: Tensor, params: Sequence[SamplingParams]) -> None:
    """Set the dropped tokens of each row to -inf. The largest of each row of `logits` [rows, vocabulary] is 0."""
    _apply(logits, params, _is_picked, _below_top_k_and_top_p)
    _apply(logits, params, _is_sorted, _below_top_k_and_top_p)
    _apply(logits, params, lambda each: each.min_p > 0, _below_min_p)
    _apply(logits, params, lambda each: each.typical_p < 1, _atypical)


def _is_picked(params: SamplingParams) -> bool:
    """Return True if the row's cutoff is among its few largest logits."""
    return params.top_k is not None and params.top_k <= _FEW


def _is_sorted(params: SamplingParams) -> bool:
    """Return True if the row must be sorted to find its cutoff."""
    return params.top_p < 1 if params.top_k is None else params.top_k > _FEW


def _apply(
    logits: Tensor,
    params: Sequence[SamplingParams],
    is_used: Callable[[SamplingParams], bool],
    dropped: Callable[[Tensor, Sequence[SamplingParams]], Tensor],
) -> None:
    """Apply one filter to the rows that use it."""
    rows = [row for row, each in enumerate(params) if is_used(each)]
    if len(rows) == len(params):
        logits.masked_fill_(dropped(logits, params), -torch.inf)
    elif rows:
        index = to_device(np.array(rows), logits.device)
        part = logits.index_select(0, index)
        logits.index_copy_(0, index, part.masked_fill_(dropped(part, [params[row] for row in rows]), -torch.inf))


def _column(values: Sequence[float], like: Tensor, dtype: type[np.number[Any]] = np.float64) -> Tensor:
    return to_device(np.array(values, dtype), like.device)[:, None]


def _below_top_k_and_top_p(logits: Tensor, params: Sequence[SamplingParams]) -> Tensor:
    """Return a mask of the logits that top_k and top_p leave out."""
    vocab_size = logits.shape[1]
    requested = [min(each.top_k or vocab_size, vocab_size) for each in params]
    counts = _column(requested, logits, np.int64)
    descending = _largest_values(logits, max(requested))
    cutoff = descending.gather(1, counts - 1)
    if any(each.top_p < 1 for each in params):
        mass = _column([each.top_p for each in params], logits)
        positions = torch.arange(descending.shape[1], device=logits.device)
        # Not a softmax: it sums in another order for each width, so the result would depend on the neighbours' top_k.
        sums = descending.exp().masked_fill_(positions >= counts, 0).cumsum(dim=-1, dtype=torch.float64)
        last = _first_reaching(sums, mass * sums[:, -1:])
        # With top_p 1 rounding must not cut off the end of a tail.
        cutoff = torch.where(mass < 1, torch.maximum(cutoff, descending.gather(1, last)), cutoff)
    return logits < cutoff


def _largest_values(logits: Tensor, count: int) -> Tensor:
    """Return each row's `count` largest values, largest first. On a CPU numpy is 25 times faster for large counts."""
    if count <= _FEW or logits.device.type != "cpu":
        return logits.topk(count, dim=-1).values
    return torch.from_numpy(np.sort(logits.numpy(), axis=-1)[:, : -count - 1 : -1].copy())


def _below_min_p(logits: Tensor, params: Sequence[SamplingParams]) -> Tensor:
    return logits < _column([math.log(each.min_p) for each in params], logits, np.float32)


def _atypical(logits: Tensor, params: Sequence[SamplingParams]) -> Tensor:
    """Mark the tokens outside the smallest set with the requested mass whose surprise is nearest to the entropy.

    Meister et al., Locally typical sampling (arXiv 2202.00666).
    """
    logprobs = logits.log_softmax(dim=-1)
    probabilities = logprobs.exp()
    # A plain sum would be split among the threads if there is only one row.
    entropy = torch.special.entr(probabilities).cumsum(dim=-1, dtype=torch.float64)[:, -1:].float()
    distance: Tensor = (logprobs + entropy).abs_()  # inf if the token is dropped already
    order = _argsort(distance)
    sums = probabilities.gather(1, order).cumsum(dim=-1, dtype=torch.float64)
    last = _first_reaching(sums, _column([each.typical_p for each in params], logits))
    return distance > distance.gather(1, order.gather(1, last))


def _first_reaching(sums: Tensor, target: Tensor) -> Tensor:
    """Return each row's first index [rows, 1] where the rising `sums` reach `target` [rows, 1], or its last index."""
    indices: Tensor = torch.searchsorted(sums, target)
    return indices.clamp_max_(sums.shape[1] - 1)


def _argsort(values: Tensor) -> Tensor:
    """Return the order of each row's values, smallest first. On a CPU numpy is 5 times faster than torch."""
    if values.device.type == "cpu":
        return torch.from_numpy(np.argsort(values.numpy(), axis=-1))
    order: Tensor = values.argsort(dim=-1)
    return order
