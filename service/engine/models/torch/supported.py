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
    if len({(layer.attention.num_kv_heads, layer.attention.head_dim) for layer in plan.layers}) > 1:
        return "its layers differ in the number or the size of their key heads"
    return None
