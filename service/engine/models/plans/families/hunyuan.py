"""Hunyuan's dense models: Llama with QK norm after RoPE."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan
from service.engine.models.plans.sources import Source, Tensors


def _plan(config: Any) -> DecoderPlan:
    has_bias = bool(config.attention_bias)
    layer = LayerPlan(
        attention=attention_of(
            config, head_norm="head", norms_rotated=True, has_qkv_bias=has_bias, has_output_bias=has_bias
        ),
        feed_forward=dense_of(config, has_bias=False),
    )
    return decoder_of(config, [layer] * config.num_hidden_layers)


_MODULES: Final = {
    "self_attn.q_norm": Source("self_attn.query_layernorm"),
    "self_attn.k_norm": Source("self_attn.key_layernorm"),
}

FAMILIES: Final = (Family(types=("hunyuan_v1_dense",), plan=_plan, tensors=Tensors(modules=_MODULES)),)
