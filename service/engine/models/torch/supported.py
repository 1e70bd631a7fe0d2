"""The check of whether the torch decoder computes a configuration's layer plan. The module does not import torch."""

from __future__ import annotations

from typing import Any

from service.engine.models.plans.families.table import plan_of
from service.engine.models.plans.plan import AttentionPlan, ExpertsPlan, LayerPlan, PlanUnsupportedError


def decoder_unsupported_reason(config: Any) -> str | None:
    """Return why the torch decoder does not support a configuration, or None if it does."""
    try:
        plan = plan_of(config)
    except PlanUnsupportedError as error:
        return str(error)
    reasons = [reason for layer in plan.layers if (reason := _layer_unsupported_reason(layer)) is not None]
    if reasons:
        return reasons[0]
    if len({(layer.heads.num_kv_heads, layer.heads.head_dim) for layer in plan.layers}) > 1:
        return "its layers differ in the number or the size of their key heads"
    return None


def _layer_unsupported_reason(layer: LayerPlan) -> str | None:
    attention, feed_forward = layer.attention, layer.feed_forward
    if layer.recurrent is not None or feed_forward is None or attention is None:
        return "it has recurrent layers, or layers without attention or feed-forward part"
    if not isinstance(attention, AttentionPlan):
        return "its attention is over latents (kv_lora_rank)"
    reasons = (
        (attention.has_gate or attention.output_multiplier != 1, "its attention has gated or scaled results"),
        (attention.growth, "its queries are scaled by position (llama_4_scaling_beta)"),
        (isinstance(feed_forward, ExpertsPlan) and not feed_forward.is_gated, "its experts have no gate"),
        (layer.has_attended_norm or layer.has_inner_norm, "it has norms inside of a layer's parts"),
        (layer.experts is not None, "it has experts in addition to dense feed-forward parts (enable_moe_block)"),
        (layer.attention_residual_multiplier, "its residual is normalized (minimax)"),
        (attention.norms_values or attention.keys_back, "its values are normalized, or its layers share keys"),
    )
    return next((reason for applies, reason in reasons if applies), None)
