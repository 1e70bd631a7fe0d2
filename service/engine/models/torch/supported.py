"""The check of whether the torch decoder computes a configuration's layer plan. The module does not import torch."""

from __future__ import annotations

from typing import Any

from service.engine.models.plans.families.table import plan_of
from service.engine.models.plans.plan import PlanUnsupportedError


def decoder_unsupported_reason(config: Any) -> str | None:
    """Return why the torch decoder does not support a configuration, or None if it does."""
    try:
        plan = plan_of(config)
    except PlanUnsupportedError as error:
        return str(error)
    if any(layer.recurrent or layer.attention is None or layer.feed_forward is None for layer in plan.layers):
        return "it has recurrent layers, or layers without attention or feed-forward part"
    if any(layer.heads.has_gate or layer.heads.output_multiplier != 1 for layer in plan.layers):
        return "its attention has gated or scaled results"
    if len({(layer.heads.num_kv_heads, layer.heads.head_dim) for layer in plan.layers}) > 1:
        return "its layers differ in the number or the size of their key heads"
    return None
