"""Hunyuan MoE: QK norm after RoPE, and a shared expert."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.expert_sources import FUSED, ExpertTensors
from service.engine.models.plans.families.experts.layers import experts_of
from service.engine.models.plans.families.hunyuan import hunyuan_rotary
from service.engine.models.plans.family import Family, attention_of, decoder_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan, PlanUnsupportedError
from service.engine.models.plans.sources import Source, Tensors


def _plan(config: Any) -> DecoderPlan:
    if not isinstance(config.num_experts, int):
        raise PlanUnsupportedError("num_experts differs between layers")
    num_layers, chosen = config.num_hidden_layers, config.moe_topk
    each = [chosen] * num_layers if isinstance(chosen, int) else chosen
    has_bias = bool(config.attention_bias)
    attention = attention_of(
        config, has_qkv_bias=has_bias, has_output_bias=has_bias, head_norm="head", norms_rotated=True
    )
    layers = [
        LayerPlan(
            attention=attention,
            feed_forward=experts_of(
                config, num_chosen=num_chosen, is_renormalized=True, shared_width=config.intermediate_size
            ),
        )
        for _, num_chosen in zip(range(num_layers), each, strict=True)
    ]
    return decoder_of(config, layers, rotary=(hunyuan_rotary(config),))


_MODULES: Final = {
    "self_attn.q_norm": Source("self_attn.query_layernorm"),
    "self_attn.k_norm": Source("self_attn.key_layernorm"),
    "mlp.gate": Source("mlp.gate.wg"),
    **{f"mlp.shared_expert.{part}_proj": Source(f"mlp.shared_mlp.{part}_proj") for part in ("gate", "up", "down")},
}
FAMILIES: Final = (
    Family(
        types=("hunyuan_v1_moe",),
        plan=_plan,
        tensors=Tensors(modules=_MODULES, experts=ExpertTensors()),
        alternatives=(Tensors(modules=_MODULES, experts=FUSED),),
    ),
)
