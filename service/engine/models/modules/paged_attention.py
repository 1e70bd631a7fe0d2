"""Attention over the paged cache for transformers' models, through transformers' attention interface.

The models pass the running step down to the attention function as an argument, so there is no global state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from transformers import AttentionInterface

from service.engine.core.batch import Batch
from service.engine.models.attention.attention import AttentionPlan
from service.engine.models.attention.kv_cache import CacheShape, KVCache
from service.engine.models.attention.scores import Scores

ATTENTION: Final = "sluice_paged"
# Arguments that change the scores in ways that are not implemented.
_UNSUPPORTED: Final = ("position_bias", "indices", "topk_indices")


class UnpagedError(Exception):
    """A model's attention cannot run over the paged cache. The text has the reason, with "it" for the model."""


class LayerShape(NamedTuple):
    """The size of a layer's keys and values for one token."""

    num_kv_heads: int
    head_dim: int
    value_dim: int


class LayeredCache:
    """The caches of a model's layers. Layers of the same shape share one cache."""

    def __init__(
        self, shapes: list[LayerShape], dtype: torch.dtype, num_blocks: int, block_size: int, device: torch.device
    ) -> None:
        """`shapes` are the shapes of all layers, in order."""
        kinds = dict.fromkeys(shapes)
        self.device = device
        self.block_size = block_size
        caches = {
            kind: KVCache(CacheShape(shapes.count(kind), *kind, dtype), num_blocks, block_size, device)
            for kind in kinds
        }
        self._caches = [(caches[kind], shapes[:layer].count(kind)) for layer, kind in enumerate(shapes)]

    def layer_cache(self, layer: int) -> tuple[KVCache, int]:
        """Return a layer's cache, and the index of the layer in that cache."""
        return self._caches[layer]


class PagedStep:
    """The attention of one step. It stores each layer's keys and values and attends over the cache."""

    def __init__(self, cache: LayeredCache, batch: Batch, slots: Tensor) -> None:
        self._cache = cache
        self._batch = batch
        self._slots = slots
        self._plans: dict[tuple[KVCache, Scores, int | None], AttentionPlan] = {}

    def attend(  # noqa: PLR0917
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scores: Scores,
        window: int | None,
        sinks: Tensor | None,
    ) -> Tensor:
        """Store keys and values, and return the attention. Tensors are [tokens, heads, dim], `sinks` [heads]."""
        cache, cache_layer = self._cache.layer_cache(layer)
        cache.write(cache_layer, self._slots, torch.cat((key, value), dim=cache.shape.pair_dim))
        plan = self._plans.get((cache, scores, window))
        if plan is None:
            plan = self._plans[cache, scores, window] = AttentionPlan(cache, self._batch, scores, window)
        return plan(cache_layer, query, sinks)


@dataclass(slots=True)
class Trial:
    """A substitute for a step during the load, which records the cache shape of each layer."""

    stored: dict[int, LayerShape] = field(default_factory=dict)
    has_windows: bool = False  # True if a layer has passed a window

    def attend(  # noqa: PLR0917
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scores: Scores,
        window: int | None,
        sinks: Tensor | None,
    ) -> Tensor:
        """Record the layer's shape, and return zeros."""
        del scores, sinks
        self.has_windows |= window is not None
        if layer in self.stored:
            raise UnpagedError(f"layer {layer} calls attention twice")
        self.stored[layer] = LayerShape(key.shape[1], key.shape[2], value.shape[2])
        return query.new_zeros(*query.shape[:2], value.shape[2])


def register_attention() -> None:
    """Register `ATTENTION` with transformers. Repeated calls have no effect."""
    AttentionInterface.register(ATTENTION, _paged_attention)


def _paged_attention(  # noqa: PLR0917
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    *,
    paged_step: PagedStep | Trial | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **extra: Any,
) -> tuple[Tensor, None]:
    """Compute `ATTENTION`: take tensors [1, heads, tokens, dim], return [1, tokens, heads, value dim]."""
    if paged_step is None:
        raise UnpagedError("its layers do not pass the step to their attention")
    for name in _UNSUPPORTED:
        if extra.get(name) is not None:
            raise UnpagedError(f"its attention uses {name}")
    if attention_mask is not None or extra.get("is_causal") is False:
        raise UnpagedError("its attention is not causal")
    scores = Scores(query.shape[-1] ** -0.5 if scaling is None else float(scaling), softcap)
    query, key, value = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
    return paged_step.attend(module.layer_idx, query, key, value, scores, sliding_window, s_aux)[None], None
