"""Qwen2: Llama with QKV bias. Qwen3: Llama with QK norm."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of, windows_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan


def _decoder(config: Any, **options: Any) -> DecoderPlan:
    """Return the plan of a decoder; `options` are those of attention."""
    layers = [
        LayerPlan(attention=attention_of(config, window=window, **options), feed_forward=dense_of(config))
        for window in windows_of(config)
    ]
    return decoder_of(config, layers)


def _qwen2(config: Any) -> DecoderPlan:
    return _decoder(config, has_qkv_bias=True)


def _qwen3(config: Any) -> DecoderPlan:
    has_bias = bool(getattr(config, "attention_bias", False))
    return _decoder(config, has_qkv_bias=has_bias, has_output_bias=has_bias, head_norm="head")


FAMILIES: Final = (Family(types=("qwen2",), plan=_qwen2), Family(types=("qwen3",), plan=_qwen3))
