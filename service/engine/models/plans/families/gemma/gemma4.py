"""Gemma 3n and 4: per-layer embeddings (PLE), and layers that reuse the KV cache of earlier ones.

3n has AltUp's parallel residual streams and LAuReL; 4 may have experts in addition to a dense MLP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any, Final

from service.engine.models.plans.expert_sources import ExpertTensors
from service.engine.models.plans.family import (
    Family,
    activation_of,
    attention_of,
    decoder_of,
    dense_of,
    kinds_of,
    require,
    rotary_of,
    windows_of,
)
from service.engine.models.plans.plan import AttentionPlan, DecoderPlan, ExpertsPlan, LayerPlan, PlanUnsupportedError
from service.engine.models.plans.sources import Source, Tensors

_TABLES: Final = ("full_attention", "sliding_attention")
# Of layers without keys of their own, which some files have nevertheless.
_SHARED: Final = tuple(f"self_attn.{module}.weight" for module in ("k_proj", "v_proj", "k_norm"))


def _keys_back(kinds: Sequence[str], num_shared: int) -> list[int]:
    """Return for each layer how many layers before it the keys are that it reads; 0: it has its own.

    The last `num_shared` layers read those of the last layer of their kind before them.
    """
    first = len(kinds) - num_shared
    last = {kind: i for i, kind in enumerate(kinds) if i < first}
    if not set(kinds) <= set(last):
        raise PlanUnsupportedError(f"num_kv_shared_layers is {num_shared}, so a kind of layers has no keys")
    return [0 if i < first else i - last[kind] for i, kind in enumerate(kinds)]


def _attention(config: Any, layers: Sequence[Any], *, full_without_values: bool = False) -> list[AttentionPlan]:
    """Return the attention of all layers, given the configuration of each."""
    has_bias = bool(config.attention_bias)
    kinds = kinds_of(config)
    return [
        attention_of(
            layer,
            scale=1.0,
            window=window,
            rotary=_TABLES.index(kind),
            head_norm="head",
            norms_values=True,
            has_qkv_bias=has_bias,
            has_output_bias=has_bias,
            values_are_keys=full_without_values and kind == "full_attention",
            keys_back=back,
        )
        for layer, window, kind, back in zip(
            layers, windows_of(config), kinds, _keys_back(kinds, config.num_kv_shared_layers), strict=True
        )
    ]


def _inputs(config: Any) -> dict[str, Any]:
    """Return the options of a decoder with inputs of layers."""
    width = config.hidden_size_per_layer_input
    if not width:
        return {}
    return {
        "layer_input_width": width,
        "num_layer_inputs": config.vocab_size_per_layer_input,
        "layer_input_activation": activation_of(config, "hidden_activation"),
    }


def _gemma3n(config: Any) -> DecoderPlan:
    require(config, "altup_active_idx", 0)
    layers = [
        LayerPlan(
            attention=attention,
            feed_forward=dense_of(
                config,
                width=width,
                activation=activation_of(config, "hidden_activation"),
                is_sparse=sparsity > 0,
                cutoff=NormalDist().inv_cdf(sparsity) if sparsity > 0 else 0.0,
            ),
            has_attention_output_norm=True,
            has_mlp_output_norm=True,
            laurel_rank=config.laurel_rank,
        )
        for attention, width, sparsity in zip(
            _attention(config, [config] * config.num_hidden_layers),
            config.intermediate_size,
            config.activation_sparsity_pattern,
            strict=True,
        )
    ]
    return decoder_of(
        config,
        layers,
        rotary=tuple(rotary_of(config, config.rope_parameters[kind]) for kind in _TABLES),
        embedding_multiplier=config.hidden_size**0.5,
        logit_soft_cap=config.final_logit_softcapping or 0.0,
        num_extra_streams=config.altup_num_inputs - 1,
        scales_corrected=bool(config.altup_correct_scale),
        **_inputs(config),
    )


def _experts(config: Any) -> ExpertsPlan:
    """Return the experts that layers have in addition to their dense feed-forward part."""
    return ExpertsPlan(
        num_experts=config.num_experts,
        num_chosen=config.top_k_experts,
        width=config.moe_intermediate_size,
        activation=activation_of(config, "hidden_activation"),
        has_router_norm=True,
        logit_multiplier=config.hidden_size**-0.5,
        is_renormalized=True,
        has_expert_scales=True,
    )


def _gemma4(config: Any) -> DecoderPlan:
    require(config, "use_bidirectional_attention", None, "vision")
    own = list(config.per_layer_config)
    attention = _attention(config, own, full_without_values=bool(config.attention_k_eq_v))
    experts = _experts(config) if config.enable_moe_block else None
    layers = [
        LayerPlan(
            attention=each,
            feed_forward=dense_of(
                config,
                width=config.intermediate_size * (2 if config.use_double_wide_mlp and each.keys_back else 1),
                activation=activation_of(config, "hidden_activation"),
            ),
            experts=experts,
            has_attention_output_norm=True,
            has_mlp_output_norm=True,
            has_scale=True,
        )
        for each in attention
    ]
    sizes = {kind: layer.head_dim for kind, layer in zip(kinds_of(config), own, strict=True)}
    return decoder_of(
        config,
        layers,
        rotary=tuple(
            rotary_of(config, config.rope_parameters[kind], sizes.get(kind, own[0].head_dim), is_partial=True)
            for kind in _TABLES
        ),
        embedding_multiplier=config.hidden_size**0.5,
        logit_soft_cap=config.final_logit_softcapping or 0.0,
        **_inputs(config),
    )


_TENSORS: Final = Tensors(
    modules={
        "post_self_attn_layernorm": Source("post_attention_layernorm"),
        "post_attention_layernorm": Source("pre_feedforward_layernorm"),
        "post_mlp_layernorm": Source("post_feedforward_layernorm"),
    },
    unused=_SHARED,
)
_GEMMA4: Final = Tensors(
    modules={
        **_TENSORS.modules,
        "mlp.gate": Source("router.proj"),
        "mlp.gate.norm": Source("router.scale"),
        "mlp.gate.scales": Source("router.per_expert_scale"),
        "experts_norm": Source("pre_feedforward_layernorm_2"),
        "dense_output_norm": Source("post_feedforward_layernorm_1"),
        "experts_output_norm": Source("post_feedforward_layernorm_2"),
    },
    experts=ExpertTensors(
        gate="experts.gate_up_proj", up="experts.gate_up_proj", down="experts.down_proj", weight="", bias="_bias"
    ),
    unused=_SHARED,
)

FAMILIES: Final = (
    Family(types=("gemma3n_text",), plan=_gemma3n, tensors=_TENSORS),
    Family(
        types=("gemma4_text",),
        plan=_gemma4,
        tensors=_GEMMA4,
        alternatives=(replace(_GEMMA4, experts=ExpertTensors()),),  # of GGUF files
    ),
)
