"""Norms of hidden states and of heads."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from service.engine.models.attention.device_kernels import DeviceKernels
from service.engine.models.torch.layers.ops import rms_norm, rms_norm_


@dataclass(frozen=True, slots=True)
class Norm:
    """The norm of the last dimension, RMS or layer norm."""

    weight: Tensor  # [width]
    bias: Tensor | None
    epsilon: float
    is_rms: bool
    kernels: DeviceKernels | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """Return the norm of x [..., width] as a new tensor."""
        if self.is_rms and self.kernels is not None:
            return self.kernels.rms_norm(x, self.weight, self.epsilon)
        if self.is_rms:
            return rms_norm(x, self.weight, self.epsilon)
        return layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)


@dataclass(frozen=True, slots=True)
class EachHeadNorm:
    """The norm of each query and key head, whose weights are in one tensor, queries first."""

    weight: Tensor  # [heads + kv heads, head dim]
    bias: Tensor | None
    epsilon: float
    is_rms: bool

    def apply_(self, heads: Tensor) -> None:
        """Normalize `heads` [tokens, heads + kv heads, head dim] in place."""
        if self.is_rms:
            rms_norm_(heads, self.weight, self.epsilon)
            return
        torch.mul(layer_norm(heads, heads.shape[-1:], eps=self.epsilon), self.weight, out=heads)
        if self.bias is not None:
            heads.add_(self.bias)


@dataclass(frozen=True, slots=True)
class AllHeadsNorm:
    """The norms of all query heads together, and of all key heads."""

    queries: Norm
    keys: Norm

    def apply_(self, heads: Tensor) -> None:
        """Normalize `heads` [tokens, heads + kv heads, head dim] in place."""
        num_queries = self.queries.weight.shape[0] // heads.shape[-1]
        for norm, own in ((self.queries, heads[:, :num_queries]), (self.keys, heads[:, num_queries:])):
            own.copy_(norm(own.flatten(1)).view_as(own))
