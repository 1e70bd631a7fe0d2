"""Multi-head latent attention (MLA) as in DeepSeek, for the families that have it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from service.engine.models.plans.family import rotary_of
from service.engine.models.plans.plan import DecoderPlan, LatentPlan, LayerPlan, RotaryPlan
from service.engine.models.plans.sources import Source

_NORM_EPSILON: Final = 1e-6  # of the norms within attention, which no configuration has


def latent_attention_of(config: Any, **options: Any) -> LatentPlan:
    """Return a layer's attention from the usual fields, and `options` that replace or complement them."""
    has_bias = bool(config.attention_bias)
    usual: dict[str, Any] = {
        "num_heads": config.num_attention_heads,
        "kv_rank": config.kv_lora_rank,
        "query_rank": config.q_lora_rank or 0,
        "key_dim": config.qk_nope_head_dim,
        "rotated_dim": config.qk_rope_head_dim,
        "value_dim": config.v_head_dim,
        "scale": _scale(config.qk_nope_head_dim + config.qk_rope_head_dim, config.rope_parameters),
        "norm_epsilon": _NORM_EPSILON,
        "has_down_bias": has_bias,
        "has_output_bias": has_bias,
    }
    return LatentPlan(**usual | options)


def latent_rotary_of(config: Any) -> RotaryPlan:
    """Return the rotary table, for the rotated part of a head."""
    return rotary_of(config, head_dim=config.qk_rope_head_dim)


def _scale(dim: int, rope: Mapping[str, Any]) -> float:
    """Return the factor on scores, which YaRN changes."""
    scale = dim**-0.5
    weight, factor = rope.get("mscale_all_dim") or 0.0, rope.get("factor") or 1.0
    if rope.get("rope_type", "default") == "default" or not weight or factor <= 1:
        return float(scale)
    return float(scale * (0.1 * weight * math.log(factor) + 1.0) ** 2)


def _halved(dim: int) -> NDArray[np.intp]:
    """Return the order in which adjacent pairs are halves."""
    return np.concatenate([np.arange(0, dim, 2), np.arange(1, dim, 2)])


def _query_rows(_: DecoderPlan, layer: LayerPlan) -> NDArray[np.intp]:
    plan = layer.latents
    order = np.concatenate([np.arange(plan.key_dim), plan.key_dim + _halved(plan.rotated_dim)])
    rows: NDArray[np.intp] = (np.arange(plan.num_heads)[:, None] * len(order) + order).reshape(-1)
    return rows


def _latent_rows(_: DecoderPlan, layer: LayerPlan) -> NDArray[np.intp]:
    plan = layer.latents
    return np.concatenate([np.arange(plan.kv_rank), plan.kv_rank + _halved(plan.rotated_dim)])


# Checkpoints whose rotated dimensions are adjacent pairs (2i, 2i + 1); the step rotates the pairs (i, i + half).
HALVED_LATENT_ROTATION: Final = {
    "self_attn.q_proj": Source("self_attn.q_proj", rows=_query_rows),
    "self_attn.q_b_proj": Source("self_attn.q_b_proj", rows=_query_rows),
    "self_attn.kv_a_proj_with_mqa": Source("self_attn.kv_a_proj_with_mqa", rows=_latent_rows),
}
