"""Kernels over the rows of a step: RMS norm and gated activation, one launch each."""

from __future__ import annotations

from typing import Final

import torch
import triton
from torch import Tensor

from service.engine.models.cuda.programs import rows as programs

ACTIVATIONS: Final = {"silu": 0, "gelu": 1, "gelu_tanh": 2, "relu": 3, "squared_relu": 4}
_TILE = 1024  # the numbers of a program of `gated`


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Return the RMS norm of x [rows, width], whose rows may be apart, times `weight` [width]."""
    result = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    width = x.shape[1]
    tile = triton.next_power_of_2(width)
    programs.rms_norm[len(x),](
        x, weight, result, x.stride(0), width, epsilon, tile, num_warps=min(max(tile // 512, 1), 16)
    )
    return result


def gated(values: Tensor, activation: str) -> Tensor:
    """Return activation(gate) * up [rows, width] of `values` [rows, 2 * width], gates first."""
    width = values.shape[1] // 2
    result = torch.empty(len(values), width, dtype=values.dtype, device=values.device)
    grid = (len(values), triton.cdiv(width, _TILE))
    programs.gated[grid](values, result, width, ACTIVATIONS[activation], _TILE)
    return result
