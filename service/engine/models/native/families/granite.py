"""Granite: Llama with multipliers; its sliding kind has sinks, and rotary tables by layer."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.native.family import Family, attention_of, decoder_of, dense_of, rotary_of, windows_of
from service.engine.models.native.plan import DecoderPlan, LayerPlan


def _multipliers(config: Any) -> dict[str, float]:
    return {
        "embedding_multiplier": float(config.embedding_multiplier),
        "residual_multiplier": float(config.residual_multiplier),
        "logit_multiplier": 1 / config.logits_scaling,
    }


def _attention(config: Any) -> dict[str, Any]:
    has_bias = bool(config.attention_bias)
    return {"scale": float(config.attention_multiplier), "has_qkv_bias": has_bias, "has_output_bias": has_bias}


def _granite(config: Any) -> DecoderPlan:
    layer = LayerPlan(attention=attention_of(config, **_attention(config)), feed_forward=dense_of(config))
    return decoder_of(config, [layer] * config.num_hidden_layers, **_multipliers(config))


def _granite_swa(config: Any) -> DecoderPlan:
    bases = sorted({float(base) for base in config.layer_rope_theta if base})
    layers = [
        LayerPlan(
            attention=attention_of(
                config,
                window=window,
                rotary=bases.index(float(base)) if base else -1,
                has_sinks=True,
                **_attention(config),
            ),
            feed_forward=dense_of(config),
        )
        for window, base in zip(windows_of(config), config.layer_rope_theta, strict=True)
    ]
    tables = tuple(rotary_of(config, {**config.rope_parameters, "rope_theta": base}) for base in bases)
    return decoder_of(config, layers, rotary=tables, **_multipliers(config))


FAMILIES: Final = (
    Family(types=("granite",), plan=_granite),
    Family(types=("granite_swa",), plan=_granite_swa),
)
