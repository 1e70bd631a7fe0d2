"""Activation functions of MLPs, plain and gated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import gelu, relu, silu

from service.engine.models.plans.plan import Activation as Name

Activation: TypeAlias = Callable[[Tensor], Tensor]
Inner: TypeAlias = Callable[[Tensor], Tensor]  # [rows, outputs of gate and up] → [rows, inputs of down]

_BY_NAME: Final[dict[Name, Activation]] = {
    "silu": silu,
    "gelu": gelu,
    "gelu_tanh": lambda x: gelu(x, approximate="tanh"),
    "relu": relu,
    "squared_relu": lambda x: relu(x).square_(),
}


def activation_named(name: Name, curve: Tensor | None = None) -> Activation:
    """Return an activation function; `curve` [4] has the parameters of xIELU."""
    return _BY_NAME[name] if curve is None else xielu_of(curve)


def xielu_of(curve: Tensor) -> Activation:
    """Return xIELU with its factors above and below 0, the factor of its linear term, and the limit of its exponent.

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


def gated_by(activation: Activation) -> Inner:
    """Return the inner function activation(gate) * up of [rows, 2 * width], gates first."""

    def inner(values: Tensor) -> Tensor:
        gate, up = values.chunk(2, dim=-1)
        return activation(gate) * up

    return inner


def limited_swiglu(limit: float, alpha: float) -> Inner:
    """Return gpt-oss' inner function of [rows, 2 * width], gates first."""

    def inner(values: Tensor) -> Tensor:
        gate, up = values.chunk(2, dim=-1)
        low = gate.clamp(max=limit)
        return (up.clamp(-limit, limit) + 1) * (low * (low * alpha).sigmoid())

    return inner
