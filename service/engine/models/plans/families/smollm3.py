"""SmolLM3: Llama with some layers without RoPE (NoPE)."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of, windows_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan


def _plan(config: Any) -> DecoderPlan:
    has_bias = bool(getattr(config, "attention_bias", False))
    layers = [
        LayerPlan(
            attention=attention_of(
                config,
                window=window,
                rotary=0 if is_rotated else -1,
                has_qkv_bias=has_bias,
                has_output_bias=has_bias,
            ),
            feed_forward=dense_of(config),
        )
        for window, is_rotated in zip(windows_of(config), config.no_rope_layers, strict=True)
    ]
    return decoder_of(config, layers)


FAMILIES: Final = (Family(types=("smollm3",), plan=_plan),)
