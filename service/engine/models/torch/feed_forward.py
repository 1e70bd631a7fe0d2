"""A feed-forward part whose weights all apply to every token."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from service.engine.models.attention.device_kernels import DeviceKernels
from service.engine.models.plans.plan import Activation as ActivationName
from service.engine.models.torch.activation import Activation
from service.engine.models.torch.linear import Linear
from service.engine.models.torch.low_rank import AddedSums


@dataclass(frozen=True, slots=True)
class Dense:
    """activation(gate) * up, or activation(up), times down. The projections of gate and up are fused."""

    gate_up: Linear  # hidden → 2 * width, or hidden → width
    down: Linear  # width → hidden
    activation: Activation
    is_gated: bool
    name: ActivationName
    kernels: DeviceKernels | None = None

    def inner(self, x: Tensor, added: AddedSums, layer: int) -> Tensor:
        """Return the inner values [tokens, width] of x [tokens, hidden]."""
        values = self.gate_up(x)
        added.add((layer, "gate_up"), x, values)
        if not self.is_gated:
            return self.activation(values)
        if self.kernels is not None and self.name != "xielu":
            return self.kernels.gated(values, self.name)
        gate, up = values.chunk(2, dim=-1)
        return self.activation(gate).mul_(up)

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
