"""What the torch decoder needs of a device's kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from service.engine.models.attention.kv_cache import CacheShape
from service.engine.models.attention.page_cache import PageCache
from service.engine.models.attention.paged_inputs import PagedInputs
from service.engine.models.attention.scores import Scores


@dataclass(frozen=True, slots=True)
class HeadNormWeights:
    """The RMS norm of each query and key head."""

    weight: Tensor  # [heads + kv heads, head dim]
    epsilon: float
    is_last: bool  # it follows the rotation


class DeviceLinear(Protocol):
    """A linear layer, y = x · weightᵀ + bias."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return y [rows, outputs] for x [rows, inputs]."""

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """Return `residual` + y."""


class DeviceExperts(Protocol):
    """The matrices of a layer's experts."""

    def __call__(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """Return each token's weighted sum of its experts' results for x [tokens, hidden].

        `chosen` int64 and `weights` float32 are [tokens, chosen].
        """


class DeviceKernels(Protocol):
    """The kernels of a device. None of them waits for it."""

    def unsupported_reason(self, shape: CacheShape, block_size: int) -> str | None:
        """Return why they do not support a cache of this shape, or None if they do."""

    def rms_norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """Return the RMS norm of x [rows, width] times `weight`."""

    def gated(self, values: Tensor, activation: str) -> Tensor:
        """Return activation(gate) * up [rows, width] of `values` [rows, 2 * width], gates first.

        `activation` is the name of a plan's.
        """

    def linear(self, weight: Tensor, bias: Tensor | None) -> DeviceLinear:
        """Return a linear layer of `weight` [outputs, inputs]."""

    def experts(
        self,
        gate_up: tuple[Tensor, Tensor | None],
        down: tuple[Tensor, Tensor | None],
        inner: Callable[[Tensor], Tensor],
    ) -> DeviceExperts:
        """Return experts of stacked weights [experts, outputs, inputs] and biases [experts, outputs].

        `inner` makes of the rows of `gate_up` those that `down` reads.
        """

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
        """Normalize and rotate the queries of `heads` in place; store keys, treated alike, and values in the cache.

        `heads` [tokens, heads + 2 * kv heads, head dim], `rotations` complex64 [positions, 1, rotated pairs].
        """

    def attend(
        self,
        queries: Tensor,
        cache: PageCache,
        layer: int,
        inputs: PagedInputs,
        *,
        scores: Scores,
        window: int | None,
        sinks: Tensor | None,
    ) -> Tensor:
        """Return the attention of `queries` [tokens, heads, head dim], in their shape.

        `window` limits the tokens that a row sees, including itself. `sinks` [heads] are the scores of a position that
        all queries see and that has no value.
        """
