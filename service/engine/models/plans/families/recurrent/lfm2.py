"""LFM2: short convolutions in most layers, attention with QK norm in the others."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.expert_sources import ExpertTensors
from service.engine.models.plans.families.experts.layers import experts_of
from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of
from service.engine.models.plans.plan import (
    DecoderPlan,
    DensePlan,
    ExpertsPlan,
    LayerPlan,
    PlanUnsupportedError,
    RecurrentPlan,
)
from service.engine.models.plans.sources import Source, Tensors

_KINDS: Final = ("conv", "full_attention")


def _layers(config: Any, feed_forward: list[DensePlan | ExpertsPlan]) -> list[LayerPlan]:
    """Return the layers of a configuration, given their feed-forward parts."""
    has_bias = bool(config.conv_bias)
    convolution = RecurrentPlan(
        kind="short_convolution",
        value_dim=config.hidden_size,
        taps=config.conv_L_cache,
        has_convolution_bias=has_bias,
        has_input_bias=has_bias,
        has_output_bias=has_bias,
    )
    attention = attention_of(config, head_norm="head")
    for kind in config.layer_types:
        if kind not in _KINDS:
            raise PlanUnsupportedError(f"layer_types has {kind!r}")
    return [
        LayerPlan(attention=attention, feed_forward=each)
        if kind == "full_attention"
        else LayerPlan(recurrent=convolution, feed_forward=each)
        for kind, each in zip(config.layer_types, feed_forward, strict=True)
    ]


def _width(config: Any) -> int:
    width = int(config.intermediate_size)
    if config.block_auto_adjust_ff_dim:
        width = int(2 * width / 3)
        if config.block_ffn_dim_multiplier is not None:
            multiple = config.block_multiple_of
            width = -(-int(config.block_ffn_dim_multiplier * width) // multiple) * multiple
    return width


def _plan(config: Any) -> DecoderPlan:
    dense = dense_of(config, width=_width(config), activation="silu")
    layers = _layers(config, [dense] * config.num_hidden_layers)
    return decoder_of(config, layers, norm_epsilon=config.norm_eps)


def _with_experts(config: Any) -> DecoderPlan:
    experts = experts_of(
        config,
        width=config.moe_intermediate_size,
        activation="silu",
        scores="sigmoid",
        has_correction=bool(config.use_expert_bias),
        is_renormalized=bool(config.norm_topk_prob),
        sum_addend=1e-6,
        scale=float(config.routed_scaling_factor),
    )
    dense = dense_of(config, activation="silu") if config.num_dense_layers else None
    layers = [
        dense if dense is not None and i < config.num_dense_layers else experts for i in range(config.num_hidden_layers)
    ]
    return decoder_of(config, _layers(config, layers), norm_epsilon=config.norm_eps)


_MODULES: Final = {
    "model.norm": Source("model.embedding_norm"),
    "input_layernorm": Source("operator_norm"),
    "post_attention_layernorm": Source("ffn_norm"),
    "self_attn.o_proj": Source("self_attn.out_proj"),
    "self_attn.q_norm": Source("self_attn.q_layernorm"),
    "self_attn.k_norm": Source("self_attn.k_layernorm"),
    "recurrent.in_proj": Source("conv.in_proj"),
    "recurrent.out_proj": Source("conv.out_proj"),
    "recurrent.convolution": Source("conv.conv", is_convolution=True),
    "mlp.gate_proj": Source("feed_forward.w1"),
    "mlp.up_proj": Source("feed_forward.w3"),
    "mlp.down_proj": Source("feed_forward.w2"),
}
_EXPERTS: Final = _MODULES | {
    "mlp.gate": Source("feed_forward.gate"),
    "mlp.gate.e_score_correction_bias": Source("feed_forward.expert_bias"),
}
FAMILIES: Final = (
    Family(types=("lfm2",), plan=_plan, tensors=Tensors(modules=_MODULES)),
    Family(
        types=("lfm2_moe",),
        plan=_with_experts,
        tensors=Tensors(
            modules=_EXPERTS,
            experts=ExpertTensors(
                gate="feed_forward.experts.{}.w1", up="feed_forward.experts.{}.w3", down="feed_forward.experts.{}.w2"
            ),
        ),
        alternatives=(
            Tensors(
                modules=_EXPERTS,
                experts=ExpertTensors(
                    gate="feed_forward.experts.gate_up_proj",
                    up="feed_forward.experts.gate_up_proj",
                    down="feed_forward.experts.down_proj",
                    weight="",
                ),
            ),
        ),
    ),
)
