"""Granite and HyperCLOVA X: Llama with multipliers. `granite_swa` adds attention sinks and a RoPE base per layer."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of, rotary_of, windows_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan
from service.engine.models.plans.sources import Source, Tensors


def granite_multipliers(config: Any) -> dict[str, float]:
    """Return the multipliers of a decoder."""
    return {
        "embedding_multiplier": float(config.embedding_multiplier),
        "residual_multiplier": float(config.residual_multiplier),
        "logit_multiplier": 1 / config.logits_scaling,
    }


def granite_attention(config: Any) -> dict[str, Any]:
    """Return the options of attention that differ from Llama's."""
    has_bias = bool(config.attention_bias)
    return {"scale": float(config.attention_multiplier), "has_qkv_bias": has_bias, "has_output_bias": has_bias}


def granite_plan(config: Any) -> DecoderPlan:
    """Return the plan of Granite's dense models."""
    layer = LayerPlan(attention=attention_of(config, **granite_attention(config)), feed_forward=dense_of(config))
    return decoder_of(config, [layer] * config.num_hidden_layers, **granite_multipliers(config))


def granite_swa_plan(config: Any) -> DecoderPlan:
    """Return the plan of Granite's dense models with sinks and windows."""
    bases = sorted({float(base) for base in config.layer_rope_theta if base})
    layers = [
        LayerPlan(
            attention=attention_of(
                config,
                window=window,
                rotary=bases.index(float(base)) if base else -1,
                has_sinks=True,
                **granite_attention(config),
            ),
            feed_forward=dense_of(config),
        )
        for window, base in zip(windows_of(config), config.layer_rope_theta, strict=True)
    ]
    tables = tuple(rotary_of(config, {**config.rope_parameters, "rope_theta": base}) for base in bases)
    return decoder_of(config, layers, rotary=tables, **granite_multipliers(config))


def _hyperclovax(config: Any) -> DecoderPlan:
    layer = LayerPlan(
        attention=attention_of(config, **granite_attention(config)),
        feed_forward=dense_of(config),
        has_attention_output_norm=bool(config.use_post_norm),
        has_mlp_output_norm=bool(config.use_post_norm),
    )
    multipliers = granite_multipliers(config) | {"logit_multiplier": float(config.logits_scaling)}
    return decoder_of(config, [layer] * config.num_hidden_layers, **multipliers)


_OUTPUT_NORMS: Final = {
    "post_self_attn_layernorm": Source("post_norm1"),
    "post_mlp_layernorm": Source("post_norm2"),
}

FAMILIES: Final = (
    Family(types=("granite",), plan=granite_plan),
    Family(types=("granite_swa",), plan=granite_swa_plan),
    Family(types=("hyperclovax",), plan=_hyperclovax, tensors=Tensors(modules=_OUTPUT_NORMS)),
)
