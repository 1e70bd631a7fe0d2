"""Activation functions of feed-forward parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import gelu, relu, silu

from service.engine.models.plans.plan import Activation as Name

Activation: TypeAlias = Callable[[Tensor], Tensor]

_BY_NAME: Final[dict[Name, Activation]] = {
    "silu": silu,
    "gelu": gelu,
    "gelu_tanh": lambda x: gelu(x, approximate="tanh"),
    "relu": relu,
    "squared_relu": lambda x: relu(x).square_(),
}


def activation_named(name: Name, curve: Tensor | None = None) -> Activation:
    """Return an activation function; `curve` [4] has the numbers of Xielu."""
    return _BY_NAME[name] if curve is None else curved(curve)


def curved(curve: Tensor) -> Activation:
    """Return Xielu with its factors above and below 0, the factor of its linear term, and the limit of its exponent.

    Huang and Schlag: xIELU (2024).
    """
    numbers: list[float] = curve.tolist()
    above, below, slope, limit = numbers

    def xielu(x: Tensor) -> Tensor:
        wide = x.float()
        negative = (wide.clamp(max=limit).expm1() - wide) * below
        result: Tensor = torch.where(wide > 0, above * wide * wide, negative) + slope * wide
        return result.to(x.dtype)

    return xielu
