"""Which tokens stay eligible: top-k, top-p, min-p and typical-p.

Owns the four filters. Pure functions over rows of logits, called by the sampler on the engine's thread. Each works on
what the one before has left, renormalised, in transformers' order: top-k, top-p, min-p, typical-p. A border is a value
and never a place in a sorted list, so tokens of equal logits are kept or dropped together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from service.engine.types import SamplingParams

_FIRST_CANDIDATES = 256  # a distribution's mass nearly always lies in these; a row where it doesn't is sorted whole


def truncate(logits: Tensor, params: Sequence[SamplingParams]) -> None:
    """Set the dropped tokens of each row to -inf. `logits` [rows, vocabulary], each row's largest is 0."""
    vocab_size = logits.shape[1]
    _apply(logits, [0 < each.top_k < vocab_size for each in params], [each.top_k for each in params], _top_k)
    _apply(logits, [each.top_p < 1 for each in params], [each.top_p for each in params], _top_p)
    _apply(logits, [each.min_p > 0 for each in params], [each.min_p for each in params], _min_p)
    _apply(logits, [each.typical_p < 1 for each in params], [each.typical_p for each in params], _typical_p)


def _apply(
    logits: Tensor,
    uses: Sequence[bool],
    values: Sequence[float],
    dropped: Callable[[Tensor, Sequence[float]], Tensor],
) -> None:
    """Run one filter on the rows that use it."""
    rows = [row for row, used in enumerate(uses) if used]
    if not rows:
        return
    chosen = [values[row] for row in rows]
    if len(rows) == len(uses):
        logits.masked_fill_(dropped(logits, chosen), -torch.inf)
    else:
        index = torch.tensor(rows, device=logits.device)
        part = logits[index]
        logits[index] = part.masked_fill_(dropped(part, chosen), -torch.inf)


def _column(values: Sequence[float], like: Tensor) -> Tensor:
    return torch.tensor(values, device=like.device)[:, None]


def _top_k(logits: Tensor, values: Sequence[float]) -> Tensor:
    counts = [int(value) for value in values]
    largest = logits.topk(max(counts), dim=-1).values
    return logits < largest.gather(1, _column(counts, logits) - 1)


def _top_p(logits: Tensor, values: Sequence[float]) -> Tensor:
    probabilities = logits.softmax(dim=-1)
    return _outside(-probabilities, probabilities, torch.tensor(values, dtype=torch.float64, device=logits.device))


def _min_p(logits: Tensor, values: Sequence[float]) -> Tensor:
    return logits < _column([math.log(value) for value in values], logits)


def _typical_p(logits: Tensor, values: Sequence[float]) -> Tensor:
    """Locally typical sampling: tokens whose surprise is nearest to the entropy (Meister et al., arXiv 2202.00666)."""
    logprobs = logits.log_softmax(dim=-1)
    probabilities = logprobs.exp()
    entropy = torch.special.entr(probabilities).sum(dim=-1, keepdim=True)
    distance = (logprobs + entropy).abs_()  # inf where the token is dropped already
    return _outside(distance, probabilities, torch.tensor(values, dtype=torch.float64, device=logits.device))


def _outside(keys: Tensor, probabilities: Tensor, mass: Tensor, num_candidates: int = _FIRST_CANDIDATES) -> Tensor:
    """Whether a token lies outside the smallest set of lowest keys whose probabilities sum up to `mass` [rows]."""
    num_candidates = min(num_candidates, keys.shape[1])
    lowest, tokens = keys.topk(num_candidates, dim=-1, largest=False)
    sums = probabilities.gather(1, tokens).double().cumsum(dim=-1)
    last = (sums < mass[:, None]).sum(dim=-1, keepdim=True).clamp_max_(num_candidates - 1)
    outside = keys > lowest.gather(1, last)
    short = (sums[:, -1] < mass).nonzero()[:, 0]
    if num_candidates < keys.shape[1] and len(short):
        outside[short] = _outside(keys[short], probabilities[short], mass[short], keys.shape[1])
    return outside
