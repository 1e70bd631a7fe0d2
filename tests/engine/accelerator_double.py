"""A stand-in for an accelerator on the CPU: kernels in plain torch operators, and recordings that run again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import linear

from service.engine.models.attention.accelerator import Accelerator
from service.engine.models.attention.decode_graphs import GraphLimits
from service.engine.models.attention.device_kernels import HeadNormWeights
from service.engine.models.attention.kv_cache import CacheShape
from service.engine.models.attention.page_cache import PageCache
from service.engine.models.attention.paged_inputs import PagedInputs
from service.engine.models.attention.scores import Scores
from service.engine.models.plans.plan import Activation
from service.engine.models.torch.layers.activation import activation_named
from service.engine.models.torch.layers.ops import rms_norm, rms_norm_, rotate_


@dataclass
class PlainLinear:
    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return residual + self(x)


@dataclass
class PlainExperts:
    gate_up: tuple[Tensor, Tensor | None]
    down: tuple[Tensor, Tensor | None]
    inner: Callable[[Tensor], Tensor]

    def __call__(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """Multiply each token by its own copy of the matrices."""
        result = torch.zeros(x.shape, dtype=torch.float64)
        for nth in range(chosen.shape[1]):
            values = x.double()
            for (matrices, biases), function in ((self.gate_up, self.inner), (self.down, lambda y: y)):
                values = torch.einsum("ti,toi->to", values, matrices[chosen[:, nth]].double())
                if biases is not None:
                    values = values + biases[chosen[:, nth]].double()
                values = function(values)
            result += values * weights[:, nth : nth + 1]
        return result.to(x.dtype)


class PlainKernels:
    """The DeviceKernels in float64 and plain operators, row by row."""

    def __init__(self, unsupported: str | None = None) -> None:
        self._unsupported = unsupported
        self.num_rows: list[int] = []  # of each call of `attend`

    def unsupported_reason(self, shape: CacheShape, block_size: int) -> str | None:
        del shape, block_size
        return self._unsupported

    def rms_norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        return rms_norm(x, weight, epsilon)

    def gated(self, values: Tensor, activation: str) -> Tensor:
        gate, up = values.chunk(2, dim=-1)
        return activation_named(cast("Activation", activation))(gate) * up

    def linear(self, weight: Tensor, bias: Tensor | None) -> PlainLinear:
        return PlainLinear(weight, bias)

    def experts(
        self,
        gate_up: tuple[Tensor, Tensor | None],
        down: tuple[Tensor, Tensor | None],
        inner: Callable[[Tensor], Tensor],
    ) -> PlainExperts:
        return PlainExperts(gate_up, down, inner)

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
        num_kv_heads = (heads.shape[1] - num_heads) // 2
        turned = heads[:, : num_heads + num_kv_heads]
        if norm is not None and not norm.is_last:
            rms_norm_(turned, norm.weight, norm.epsilon)
        if rotations is not None:
            rotate_(turned[..., : 2 * rotations.shape[-1]], rotations[inputs.positions])
        if norm is not None and norm.is_last:
            rms_norm_(turned, norm.weight, norm.epsilon)
        keys, values = cache.slots(layer)
        keys[inputs.slots] = turned[:, num_heads:].to(keys.dtype)
        values[inputs.slots] = heads[:, num_heads + num_kv_heads :].to(values.dtype)

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
        self.num_rows.append(len(queries))
        pages, page_size = cache.pages(layer), cache.block_size
        assert inputs.query_offsets.dtype == inputs.context_lengths.dtype == inputs.block_tables.dtype == torch.int32
        counts = inputs.query_offsets.diff()
        assert counts.max() <= inputs.max_queries
        assert inputs.context_lengths.max() <= inputs.max_context
        assert bool((counts == 1).any()) <= inputs.has_single_queries
        repeats = queries.shape[1] // pages[0].shape[2]
        result = torch.empty_like(queries)
        for sequence, (first, end) in enumerate(pairwise(inputs.query_offsets.tolist())):
            length = int(inputs.context_lengths[sequence])
            blocks = inputs.block_tables[sequence, : -(-length // page_size)].long()
            keys, values = (
                each[blocks].flatten(0, 1)[:length].repeat_interleave(repeats, 1).double() for each in pages
            )
            for row in range(first, end):
                last = length - (end - row)  # the row's position
                seen = slice(0 if window is None else max(0, last - window + 1), last + 1)
                logits = torch.einsum("hd,khd->hk", queries[row].double(), keys[seen]) * scores.scale
                if scores.softcap is not None:
                    logits = torch.tanh(logits / scores.softcap) * scores.softcap
                if sinks is not None:
                    logits = torch.cat((logits, sinks.double()[:, None]), 1)
                weights = logits.softmax(-1)[:, : last + 1 - seen.start]
                result[row] = torch.einsum("hk,khd->hd", weights, values[seen]).to(queries.dtype)
        return result


class RepeatedWork:
    """Runs its work again on each replay, and writes the result over the first one."""

    def __init__(self, work: Callable[[], Tensor]) -> None:
        self._work = work
        self.result = work()

    def replay(self) -> None:
        self.result.copy_(self._work())


class RunAgain:
    """A Recorder. Each recording reports `taken` bytes as used."""

    def __init__(self, taken: int = 0) -> None:
        self._taken = taken
        self.num_recorded = 0

    def record(self, work: Callable[[], Tensor]) -> RepeatedWork:
        self.num_recorded += 1
        return RepeatedWork(work)

    def free_bytes(self) -> int:
        return 10**9 - self.num_recorded * self._taken


def accelerator(
    max_sequences: int = 4,
    max_context: int = 128,
    max_bytes: int = 10**6,
    recorder: RunAgain | None = None,
    kernels: PlainKernels | None = None,
) -> Accelerator:
    limits = GraphLimits(max_sequences, max_context, max_bytes)
    return Accelerator(kernels or PlainKernels(), recorder or RunAgain(), limits)
