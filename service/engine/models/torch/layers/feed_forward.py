"""A feed-forward part whose weights all apply to every token."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from service.engine.models.torch.layers.activation import Inner
from service.engine.models.torch.layers.linear import Linear
from service.engine.models.torch.layers.low_rank import AddedSums


@dataclass(frozen=True, slots=True)
class Dense:
    """Two products with a function between them. The projections of gate and up are fused."""

    gate_up: Linear  # hidden → 2 * width, or hidden → width
    down: Linear  # width → hidden
    activated: Inner

    def inner(self, x: Tensor, added: AddedSums, layer: int) -> Tensor:
        """Return the inner values [tokens, width] of x [tokens, hidden]."""
        values = self.gate_up(x)
        added.add((layer, "gate_up"), x, values)
        return self.activated(values)

    def add_to(self, residual: Tensor, x: Tensor, added: AddedSums, layer: int) -> Tensor:
        """Return `residual` plus the part's result for x [tokens, hidden]."""
        inner = self.inner(x, added, layer)
        summed = self.down.add_to(residual, inner)
        added.add((layer, "down"), inner, summed)
        return summed

    def __call__(self, x: Tensor, added: AddedSums, layer: int) -> Tensor:
        """Return the part's result for x [tokens, hidden]."""
        inner = self.inner(x, added, layer)
        result = self.down(inner)
        added.add((layer, "down"), inner, result)
        return result
