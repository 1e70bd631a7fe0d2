"""The kernels of an NVIDIA device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear

from service.engine.models.attention.device_kernels import DeviceExperts, DeviceLinear, HeadNormWeights
from service.engine.models.attention.kv_cache import CacheShape
from service.engine.models.attention.page_cache import PageCache
from service.engine.models.attention.paged_inputs import PagedInputs
from service.engine.models.cuda.attention import PagedAttention
from service.engine.models.cuda.experts import ExpertRows, multiply_experts, weighted_sum
from service.engine.models.cuda.heads import prepare_heads
from service.engine.models.cuda.products import InvariantLinear
from service.engine.models.cuda.rows import gated, rms_norm
from service.engine.models.cuda.support import MOST_HEAD_NUMBERS

_DTYPES = frozenset({torch.float16, torch.bfloat16, torch.float32})


@dataclass(frozen=True, slots=True)
class LibraryLinear:
    """A linear layer by cuBLAS, which chooses a kernel by the number of rows."""

    weight: Tensor  # [outputs, inputs]
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        """Return y [rows, outputs] for x [rows, inputs]."""
        return linear(x, self.weight, self.bias)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """Return `residual` + y."""
        y = torch.addmm(residual, x, self.weight.t())
        return y if self.bias is None else y.add_(self.bias)


@dataclass(frozen=True, slots=True)
class StackedExperts:
    """Experts whose tokens are sorted by expert, so that each matrix is read once and only if it was chosen."""

    gate_up: tuple[Tensor, Tensor | None]
    down: tuple[Tensor, Tensor | None]
    inner: Callable[[Tensor], Tensor]

    def __call__(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """Return each token's weighted sum of its experts' results."""
        rows = ExpertRows.sort(chosen, len(self.gate_up[0]))
        inner = self.inner(multiply_experts(x, *self.gate_up, rows, chosen.shape[1]))
        return weighted_sum(multiply_experts(inner, *self.down, rows, None), rows, weights)


class TritonKernels:
    """The DeviceKernels of an NVIDIA device. With `is_invariant` a row's bits don't depend on the other rows."""

    def __init__(self, max_context: int, *, is_invariant: bool) -> None:
        self.attend = PagedAttention(max_context)
        self.rms_norm = rms_norm
        self.gated = gated
        self._is_invariant = is_invariant

    def unsupported_reason(self, shape: CacheShape, block_size: int) -> str | None:  # noqa: ARG002  any block size
        """Return why the kernels do not support a cache of this shape, or None if they do."""
        if shape.dtype not in _DTYPES:
            return f"they compute in float32, float16 and bfloat16, not in {str(shape.dtype).removeprefix('torch.')}"
        if shape.head_dim != shape.value_dim:
            return "values and keys differ in size"
        if shape.head_dim > MOST_HEAD_NUMBERS:
            return f"heads have {shape.head_dim} numbers, the limit is {MOST_HEAD_NUMBERS}"
        return None

    def linear(self, weight: Tensor, bias: Tensor | None) -> DeviceLinear:
        """Return a linear layer of `weight` [outputs, inputs]."""
        return InvariantLinear(weight, bias) if self._is_invariant else LibraryLinear(weight, bias)

    def experts(
        self,
        gate_up: tuple[Tensor, Tensor | None],
        down: tuple[Tensor, Tensor | None],
        inner: Callable[[Tensor], Tensor],
    ) -> DeviceExperts:
        """Return experts of stacked weights."""
        return StackedExperts(gate_up, down, inner)

    def prepare_heads(
        self,
        heads: Tensor,
        num_heads: int,
        *,
        rotations: Tensor | None,
        norm: HeadNormWeights | None,
        cache: PageCache,
        layer: int,
        inputs: PagedInputs,
    ) -> None:
        """Normalize and rotate queries in place, and store keys and values."""
        keys, values = cache.slots(layer)
        prepare_heads(
            heads, num_heads, rotations, norm,
            positions=inputs.positions, slots=inputs.slots, keys=keys, values=values,
        )  # fmt: skip
