"""Operations of a decoder: normalisation and rotary positions."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor


def as_tensor(stored: npt.NDArray[Any]) -> Tensor:
    """Return a checkpoint's array as a tensor; uint16 holds the bits of bfloat16."""
    tensor = torch.from_numpy(stored)
    return tensor.view(torch.bfloat16) if tensor.dtype is torch.uint16 else tensor


def rms_norm_(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Divide x by the root mean square of its last dimension and multiply by `weight`, in place.

    It uses `vector_norm`, which reads x once; torch's `rms_norm` takes up to twice the time on a CPU.
    """
    return x.mul_(_inverse_rms(x, epsilon)).mul_(weight)


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Return the RMS norm of x, times `weight`, as a new tensor."""
    return (x * _inverse_rms(x, epsilon)).to(x.dtype).mul_(weight)


def _inverse_rms(x: Tensor, epsilon: float) -> Tensor:
    """Return the inverse root mean square of the last dimension, [..., 1], always in float32."""
    norm: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
    return norm.square_().mul_(1 / x.shape[-1]).add_(epsilon).rsqrt_()


def rotate_(x: Tensor, rotation: Tensor) -> None:
    """Rotate each adjacent pair (x[2i], x[2i+1]) of the last dimension by its complex factor, in place.

    `x` [tokens, heads, rotated dims], `rotation` complex64 [tokens, 1, rotated dims / 2]. Checkpoints keep the two
    halves of a head instead of adjacent pairs; `interleave_pairs` reorders the weights once, so one complex product is
    enough.
    """
    pairs = x.view(*x.shape[:-1], -1, 2)
    if x.dtype is torch.float32:
        torch.view_as_complex(pairs).mul_(rotation)
    else:
        pairs.copy_(torch.view_as_real(torch.view_as_complex(pairs.float()).mul_(rotation)))


def interleave_pairs(weight: Tensor, head_dim: int, num_rotated: int) -> Tensor:
    """Reorder the first dimension from halves (i, i + half) of each head to adjacent pairs (2i, 2i + 1).

    The first `num_rotated` dimensions of a head are reordered, half of which is `half`. Queries and keys are reordered
    in the same way, so their products do not change.
    """
    heads = weight.view(-1, head_dim, *weight.shape[1:])
    rotated, others = heads[:, :num_rotated], heads[:, num_rotated:]
    pairs = rotated.reshape(len(heads), 2, num_rotated // 2, *weight.shape[1:]).transpose(1, 2).flatten(1, 2)
    return torch.cat((pairs, others), 1).view(weight.shape)


def rotation_table(inverse_frequencies: Tensor, scale: float, num_positions: int) -> Tensor:
    """Return each position's rotation, times `scale`, complex64 [positions, 1, head dim / 2]."""
    angles = torch.outer(torch.arange(num_positions, dtype=torch.float32), inverse_frequencies.float())
    return torch.polar(torch.tensor(scale), angles).unsqueeze(1)
