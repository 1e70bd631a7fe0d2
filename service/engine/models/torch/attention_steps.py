"""The attention of a step between the projections of a layer: rotation, storing of keys and values, attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from service.engine.core.batch import Batch
from service.engine.models.attention.attention import AttentionPlan
from service.engine.models.attention.device_kernels import DeviceKernels, HeadNormWeights
from service.engine.models.attention.inputs import Inputs
from service.engine.models.attention.kv_cache import KVCache
from service.engine.models.attention.page_cache import PageCache
from service.engine.models.attention.paged_inputs import PagedInputs
from service.engine.models.torch.layers.attention import Attention, Visibility
from service.engine.models.torch.layers.norm import EachHeadNorm


class AttentionStep(Protocol):
    """The attention of all layers in a step."""

    def __call__(self, layer: int, attention: Attention, heads: Tensor) -> Tensor:
        """Return the attention [tokens, heads * head dim] of a layer, and store its keys and values.

        `heads` [tokens, heads + 2 * kv heads, head dim] are projected queries, keys and values, and are overwritten.
        """


class PlainAttention:
    """Attention in torch's operators. Layers that see the same positions share their preparations."""

    def __init__(self, cache: KVCache, batch: Batch, inputs: Inputs, rotations: Sequence[Tensor]) -> None:
        """`rotations` are the tables of all positions."""
        self._cache = cache
        self._batch = batch
        self._inputs = inputs
        self._rotations = [table.index_select(0, inputs.positions) for table in rotations]
        self._plans: dict[Visibility, AttentionPlan] = {}

    def __call__(self, layer: int, attention: Attention, heads: Tensor) -> Tensor:
        seen, table = attention.visibility, attention.plan.rotary
        attention.turn_(heads, self._rotations[table] if table >= 0 else None)
        self._cache.write(layer, self._inputs.slots, heads[:, attention.num_heads :])
        if (plan := self._plans.get(seen)) is None:
            plan = self._plans[seen] = AttentionPlan(self._cache, self._batch, seen.scores, seen.window)
        return plan(layer, heads[:, : attention.num_heads], attention.sinks).flatten(1)


class DeviceAttention:
    """Attention by a device's kernels."""

    def __init__(
        self, kernels: DeviceKernels, cache: PageCache, inputs: PagedInputs, rotations: Sequence[Tensor]
    ) -> None:
        """`rotations` are the tables of all positions."""
        self._kernels = kernels
        self._cache = cache
        self._inputs = inputs
        self._rotations = rotations

    def __call__(self, layer: int, attention: Attention, heads: Tensor) -> Tensor:
        inputs, table = self._inputs, attention.plan.rotary
        rotations = self._rotations[table] if table >= 0 else None
        norm, own = attention.head_norm, None
        if isinstance(norm, EachHeadNorm) and norm.is_rms and norm.bias is None:
            own = HeadNormWeights(norm.weight, norm.epsilon, attention.plan.norms_rotated)
        elif norm is not None:
            attention.turn_(heads, None if rotations is None else rotations.index_select(0, inputs.positions))
            rotations = None
        num_heads, seen = attention.num_heads, attention.visibility
        self._kernels.prepare_heads(
            heads, num_heads, rotations=rotations, norm=own, cache=self._cache, layer=layer, inputs=inputs
        )
        queries = heads[:, :num_heads]
        attended = self._kernels.attend(
            queries, self._cache, layer, inputs, scores=seen.scores, window=seen.window, sinks=attention.sinks
        )
        return attended.flatten(1)
