"""Hunyuan's dense models: Llama with QK norm after RoPE, whose base may be stretched by a fixed factor."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of, head_dim_of, rotary_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan, RotaryPlan
from service.engine.models.plans.sources import Source, Tensors


def hunyuan_rotary(config: Any) -> RotaryPlan:
    """Return the rotary table. Files call the stretch of its base by `alpha` dynamic, although it is fixed."""
    rope, dim = config.rope_parameters, head_dim_of(config)
    if rope.get("rope_type") != "dynamic" or not rope.get("alpha"):
        return rotary_of(config)
    base = rope["rope_theta"] * rope["alpha"] ** (dim / (dim - 2))
    return rotary_of(config, {"rope_type": "default", "rope_theta": base})


def _plan(config: Any) -> DecoderPlan:
    has_bias = bool(config.attention_bias)
    layer = LayerPlan(
        attention=attention_of(
            config, head_norm="head", norms_rotated=True, has_qkv_bias=has_bias, has_output_bias=has_bias
        ),
        feed_forward=dense_of(config, has_bias=False),
    )
    return decoder_of(config, [layer] * config.num_hidden_layers, rotary=(hunyuan_rotary(config),))


_MODULES: Final = {
    "self_attn.q_norm": Source("self_attn.query_layernorm"),
    "self_attn.k_norm": Source("self_attn.key_layernorm"),
}

FAMILIES: Final = (Family(types=("hunyuan_v1_dense",), plan=_plan, tensors=Tensors(modules=_MODULES)),)
