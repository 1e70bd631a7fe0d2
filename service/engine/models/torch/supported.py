"""The check of whether the torch decoder computes a configuration's layer plan. The module does not import torch."""

from __future__ import annotations

from typing import Any

from service.engine.models.plans.families.table import plan_of
from service.engine.models.plans.plan import AttentionPlan, PlanUnsupportedError


def decoder_unsupported_reason(config: Any) -> str | None:
    """Return why the torch decoder does not support a configuration, or None if it does."""
    try:
        plan = plan_of(config)
    except PlanUnsupportedError as error:
        return str(error)
    heads = set()
    for layer in plan.layers:
        attention = layer.attention
        if not isinstance(attention, AttentionPlan):
            return "its attention is over latents (kv_lora_rank)"
        if attention.growth:
            return "its queries are scaled by position (llama_4_scaling_beta)"
        if layer.has_attended_norm or layer.has_inner_norm:
            return "it has norms inside of a layer's parts"
        heads.add((attention.num_kv_heads, attention.head_dim))
    return "its layers differ in the number or the size of their key heads" if len(heads) > 1 else None
