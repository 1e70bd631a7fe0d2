"""Qwen3: Llama with norms of the heads of queries and keys."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of, windows_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan


def _plan(config: Any) -> DecoderPlan:
    has_bias = bool(getattr(config, "attention_bias", False))
    options = {"has_qkv_bias": has_bias, "has_output_bias": has_bias, "head_norm": "head"}
    layers = [
        LayerPlan(attention=attention_of(config, window=window, **options), feed_forward=dense_of(config))
        for window in windows_of(config)
    ]
    return decoder_of(config, layers)


FAMILIES: Final = (Family(types=("qwen3",), plan=_plan),)
