"""All layouts give the same products."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import linear

from service.engine.models.torch.layers.linear import BlockedLinear, InputMajorLinear, lay_out


@pytest.mark.parametrize(("outputs", "inputs"), [(48, 40), (1040, 1016)], ids=["plain", "blocked"])
@pytest.mark.parametrize("rows", [1, 3, 16, 70])
@pytest.mark.parametrize("with_biases", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_linear_equals_torch(outputs: int, inputs: int, rows: int, *, with_biases: bool, dtype: torch.dtype) -> None:
    """The layout chosen on this CPU gives torch's products and sums with a residual, also for a slice as input."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(outputs, inputs, generator=generator).to(dtype)
    bias = torch.randn(outputs, generator=generator).to(dtype) if with_biases else None
    x = torch.randn(rows, inputs + 60, generator=generator).to(dtype)[:, 10 : inputs + 10]
    residual = torch.randn(rows, outputs, generator=generator).to(dtype)
    multiply = lay_out(weight, bias)
    exact = linear(x.double(), weight.double(), None if bias is None else bias.double())
    sizes = exact.abs().max().item()
    tolerance = sizes * (1e-5 if dtype is torch.float32 else 2**-7)  # bfloat16 keeps 8 bits
    before = residual.clone()
    torch.testing.assert_close(multiply(x).double(), exact, atol=tolerance, rtol=0)
    torch.testing.assert_close(multiply.add_to(residual, x).double(), exact + residual.double(), atol=tolerance, rtol=0)
    assert torch.equal(residual, before)


@pytest.mark.parametrize(("outputs", "inputs", "kind"), [(256, 256, InputMajorLinear), (1024, 1024, BlockedLinear)])
def test_lay_out_blocks_large_weights_only(outputs: int, inputs: int, kind: type) -> None:
    """On a CPU, weights with at least a million elements get oneDNN's layout, and smaller ones the plain layout."""
    assert isinstance(lay_out(torch.zeros(outputs, inputs)), kind)
