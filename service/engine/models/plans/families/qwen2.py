"""Qwen2: Llama with biases on queries, keys and values."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of, windows_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan


def _plan(config: Any) -> DecoderPlan:
    layers = [
        LayerPlan(attention=attention_of(config, window=window, has_qkv_bias=True), feed_forward=dense_of(config))
        for window in windows_of(config)
    ]
    return decoder_of(config, layers)


FAMILIES: Final = (Family(types=("qwen2",), plan=_plan),)
