"""Draw tokens at random.

It has no state: the random number of a token is a function of the sequence's seed and of the token's index, so that
neighbours, preemption and the shape of a batch can't change it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_BLOCK = 256  # tokens whose weights are summed before the search


def uniforms(seeds: Sequence[int], indices: Sequence[int]) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each pair of a 64-bit seed and an index: SplitMix64 at `index` steps from the seed.

    Steele, Lea, Flood: Fast splittable pseudorandom number generators (OOPSLA 2014). The seed is mixed first, because
    neighbouring seeds would otherwise walk the same sequence.
    """
    start = _mix(np.array(seeds, dtype=np.uint64) ^ _GOLDEN)
    bits = _mix(start + np.array(indices, dtype=np.uint64) * _GOLDEN) >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def draw(weights: Tensor, uniform: Tensor) -> Tensor:
    """Return a token for each row of `weights` [rows, vocabulary], all at least 0, by inverse transform sampling.

    `uniform` [rows] is the fraction of the row's sum at which the token lies. The sum runs in the order of the token
    ids, first over blocks and then within one, which reads the weights once. A weight of 0 is never chosen, unless the
    row has no other or is not finite; then the result is any valid token.
    """
    num_rows, vocab_size = weights.shape
    padded = torch.nn.functional.pad(weights, (0, -vocab_size % _BLOCK)).view(num_rows, -1, _BLOCK)
    block, below = _first_above(padded.sum(dim=-1).double(), uniform.double(), is_part=True)
    inside = padded[torch.arange(num_rows, device=weights.device), block].double()
    token, _ = _first_above(inside, below, is_part=False)
    return (block * _BLOCK + token).clamp_max_(vocab_size - 1)


def _first_above(weights: Tensor, target: Tensor, *, is_part: bool) -> tuple[Tensor, Tensor]:
    """Return the first index of each row where the running sum exceeds `target`, and the part of the target within it.

    With `is_part`, the target is a fraction of the row's sum. A target that rounding put at or above the sum is moved
    just below it, so that the chosen weight is above 0.
    """
    sums = weights.cumsum(dim=-1)
    total = sums[:, -1]
    target = torch.minimum(target * total if is_part else target, torch.nextafter(total, torch.zeros_like(total)))
    chosen = torch.searchsorted(sums, target[:, None], right=True).clamp_max_(sums.shape[1] - 1)
    before = sums.gather(1, chosen) - weights.gather(1, chosen)
    return chosen[:, 0], (target - before[:, 0]).clamp_min_(0)
