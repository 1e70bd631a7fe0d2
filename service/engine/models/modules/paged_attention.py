"""Attention over the paged cache for transformers' modules, through transformers' attention interface.

The function finds the running step in the arguments that the modules hand down, so nothing global changes from step to
step.
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
# What would change the scores in a way that isn't computed here.
_UNSUPPORTED: Final = ("position_bias", "indices", "topk_indices")


class UnpagedError(Exception):
    """A model's attention can't run over the paged cache; the text says why, of a model called it."""


class LayerShape(NamedTuple):
    """What a layer stores of a token."""

    num_kv_heads: int
    head_dim: int
    value_dim: int


class LayeredCache:
    """The caches of a model's layers: those that store alike share one."""

    def __init__(
        self, shapes: list[LayerShape], dtype: torch.dtype, num_blocks: int, block_size: int, device: torch.device
    ) -> None:
        """`shapes` are those of all layers in their order."""
        kinds = dict.fromkeys(shapes)
        self.device = device
        self.block_size = block_size
        caches = {
            kind: KVCache(CacheShape(shapes.count(kind), *kind, dtype), num_blocks, block_size, device)
            for kind in kinds
        }
        self._places = [(caches[kind], shapes[:layer].count(kind)) for layer, kind in enumerate(shapes)]

    def of(self, layer: int) -> tuple[KVCache, int]:
        """A layer's cache, and which of the cache's layers it is."""
        return self._places[layer]


class PagedStep:
    """Attention of one step: stores a layer's keys and values and attends over the cache."""

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
        """Tensors [tokens, heads, dim]; `sinks` [heads]."""
        cache, place = self._cache.of(layer)
        cache.write(place, self._slots, torch.cat((key, value), dim=cache.shape.pair_dim))
        plan = self._plans.get((cache, scores, window))
        if plan is None:
            plan = self._plans[cache, scores, window] = AttentionPlan(cache, self._batch, scores, window)
        return plan(place, query, sinks)


@dataclass(slots=True)
class Trial:
    """Stands in for a step at load and notes the shape of what each layer would store."""

    stored: dict[int, LayerShape] = field(default_factory=dict)
    has_windows: bool = False  # whether a layer has handed one down

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
        """Nothing is attended to: zeros."""
        del scores, sinks
        self.has_windows |= window is not None
        if layer in self.stored:
            raise UnpagedError(f"layer {layer} attends twice")
        self.stored[layer] = LayerShape(key.shape[1], key.shape[2], value.shape[2])
        return query.new_zeros(*query.shape[:2], value.shape[2])


def register_attention() -> None:
    """Make `ATTENTION` known to transformers. Repeating it changes nothing."""
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
    """The function behind `ATTENTION`: tensors [1, heads, tokens, dim] in, [1, tokens, heads, value dim] out."""
    if paged_step is None:
        raise UnpagedError("its layers do not hand the step down to their attention")
    for name in _UNSUPPORTED:
        if extra.get(name) is not None:
            raise UnpagedError(f"its attention uses {name}")
    if attention_mask is not None or extra.get("is_causal") is False:
        raise UnpagedError("its attention is not causal")
    scores = Scores(query.shape[-1] ** -0.5 if scaling is None else float(scaling), softcap)
    query, key, value = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
    return paged_step.attend(module.layer_idx, query, key, value, scores, sliding_window, s_aux)[None], None
