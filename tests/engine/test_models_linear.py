"""Every layout multiplies alike."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import linear

from service.engine.models.linear import BlockedLinear, InputMajorLinear, lay_out

KINDS = [InputMajorLinear, BlockedLinear]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 3, 16, 70])
@pytest.mark.parametrize("num_biases", [0, 48])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_linear_equals_torch(
    kind: type[InputMajorLinear | BlockedLinear], rows: int, num_biases: int, dtype: torch.dtype
) -> None:
    """Product, and product added to a residual, equal torch's, also for an input that is a slice."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(48, 40, generator=generator).to(dtype)
    bias = torch.randn(48, generator=generator).to(dtype) if num_biases else None
    x = torch.randn(rows, 100, generator=generator).to(dtype)[:, 10:50]
    residual = torch.randn(rows, 48, generator=generator).to(dtype)
    multiply = kind(weight, bias)
    exact = linear(x.double(), weight.double(), None if bias is None else bias.double())
    tolerance = 1e-4 if dtype is torch.float32 else 0.15  # values up to about 20, of which bfloat16 keeps 8 bits
    before = residual.clone()
    torch.testing.assert_close(multiply(x).double(), exact, atol=tolerance, rtol=0)
    torch.testing.assert_close(multiply.add_to(residual, x).double(), exact + residual.double(), atol=tolerance, rtol=0)
    assert torch.equal(residual, before)


@pytest.mark.parametrize(("outputs", "inputs", "kind"), [(256, 256, InputMajorLinear), (1024, 1024, BlockedLinear)])
def test_lay_out_blocks_large_weights_only(outputs: int, inputs: int, kind: type) -> None:
    """On a CPU, weights from a million elements on get oneDNN's layout, smaller ones the plain one."""
    assert isinstance(lay_out(torch.zeros(outputs, inputs)), kind)
