"""GPT-NeoX, Persimmon, Phi and Falcon: LayerNorm, attention and MLP in parallel, an MLP without a gate."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.family import (
    Family,
    activation_of,
    attention_of,
    decoder_of,
    dense_of,
    require,
    rotary_of,
)
from service.engine.models.plans.plan import DecoderPlan, LayerPlan
from service.engine.models.plans.rows import grouped_rows
from service.engine.models.plans.sources import Source, Tensors


def _decoder(config: Any, layer: LayerPlan, epsilon: float, **options: Any) -> DecoderPlan:
    return decoder_of(
        config,
        [layer] * config.num_hidden_layers,
        norm_kind="layer",
        norm_epsilon=epsilon,
        has_norm_bias=True,
        **{"rotary": (rotary_of(config, is_partial=True),)} | options,
    )


def _neox(config: Any) -> DecoderPlan:
    has_bias = bool(config.attention_bias)
    layer = LayerPlan(
        attention=attention_of(config, has_qkv_bias=has_bias, has_output_bias=has_bias),
        feed_forward=dense_of(config, is_gated=False, has_bias=True),
        is_parallel=bool(config.use_parallel_residual),
    )
    return _decoder(config, layer, config.layer_norm_eps)


def _persimmon(config: Any) -> DecoderPlan:
    layer = LayerPlan(
        attention=attention_of(
            config,
            num_kv_heads=config.num_attention_heads,
            has_qkv_bias=True,
            has_output_bias=True,
            head_norm="head" if config.qk_layernorm else "none",
            has_head_norm_bias=bool(config.qk_layernorm),
        ),
        feed_forward=dense_of(config, is_gated=False, has_bias=True),
    )
    return _decoder(config, layer, config.layer_norm_eps)


def _phi(config: Any) -> DecoderPlan:
    layer = LayerPlan(
        attention=attention_of(
            config,
            has_qkv_bias=True,
            has_output_bias=True,
            head_norm="head" if config.qk_layernorm else "none",
            has_head_norm_bias=bool(config.qk_layernorm),
        ),
        feed_forward=dense_of(config, is_gated=False, has_bias=True),
        has_mlp_norm=False,
        is_parallel=True,
    )
    return _decoder(config, layer, config.layer_norm_eps, has_head_bias=True)


def _falcon(config: Any) -> DecoderPlan:
    require(config, "alibi", False, None)
    is_new, is_parallel = bool(config.new_decoder_architecture), bool(config.parallel_attn)
    if is_new:
        require(config, "parallel_attn", True)
        num_kv_heads, has_both_norms = config.num_kv_heads, config.num_ln_in_parallel_attn in {None, 2}
    else:
        require(config, "num_ln_in_parallel_attn", None, 1)
        num_kv_heads, has_both_norms = 1 if config.multi_query else config.num_attention_heads, False
    layer = LayerPlan(
        attention=attention_of(
            config, num_kv_heads=num_kv_heads, has_qkv_bias=bool(config.bias), has_output_bias=bool(config.bias)
        ),
        feed_forward=dense_of(
            config,
            width=config.ffn_hidden_size,
            activation=activation_of(config, "activation"),
            is_gated=False,
            has_bias=bool(config.bias),
        ),
        has_mlp_norm=has_both_norms or not is_parallel,
        is_parallel=is_parallel,
    )
    return _decoder(config, layer, config.layer_norm_epsilon, rotary=(rotary_of(config),))


def _grouped(module: str) -> dict[str, Source]:
    return {
        "self_attn.q_proj": Source(module, rows=grouped_rows("queries")),
        "self_attn.k_proj": Source(module, rows=grouped_rows("keys")),
        "self_attn.v_proj": Source(module, rows=grouped_rows("values")),
        "mlp.up_proj": Source("mlp.dense_h_to_4h"),
        "mlp.down_proj": Source("mlp.dense_4h_to_h"),
    }


_NEOX: Final = _grouped("attention.query_key_value") | {
    "model.embed_tokens": Source("gpt_neox.embed_in"),
    "model.norm": Source("gpt_neox.final_layer_norm"),
    "lm_head": Source("embed_out"),
    "self_attn.o_proj": Source("attention.dense"),
}
_DENSE: Final = {
    "model.norm": Source("model.final_layernorm"),
    "self_attn.o_proj": Source("self_attn.dense"),
    "self_attn.q_norm": Source("self_attn.q_layernorm"),
    "self_attn.k_norm": Source("self_attn.k_layernorm"),
}
_PERSIMMON: Final = _grouped("self_attn.query_key_value") | _DENSE
_PHI: Final = _DENSE | {
    "mlp.up_proj": Source("mlp.fc1"),
    "mlp.down_proj": Source("mlp.fc2"),
}


def _has_both_norms(layer: LayerPlan) -> bool:
    return layer.is_parallel and layer.has_mlp_norm


_FALCON: Final = _grouped("self_attention.query_key_value") | {
    "model.embed_tokens": Source("transformer.word_embeddings"),
    "model.norm": Source("transformer.ln_f"),
    "self_attn.o_proj": Source("self_attention.dense"),
    "input_layernorm": Source(
        "input_layernorm", module_of=lambda layer: "ln_attn" if _has_both_norms(layer) else "input_layernorm"
    ),
    "post_attention_layernorm": Source(
        "post_attention_layernorm",
        module_of=lambda layer: "ln_mlp" if _has_both_norms(layer) else "post_attention_layernorm",
    ),
}

FAMILIES: Final = (
    Family(
        types=("gpt_neox",),
        plan=_neox,
        tensors=Tensors(
            modules=_NEOX,
            layers="gpt_neox.layers.{}.",
            unused=("attention.bias", "attention.masked_bias", "attention.rotary_emb.inv_freq"),
        ),
    ),
    Family(types=("persimmon",), plan=_persimmon, tensors=Tensors(modules=_PERSIMMON)),
    Family(types=("phi",), plan=_phi, tensors=Tensors(modules=_PHI)),
    Family(types=("falcon",), plan=_falcon, tensors=Tensors(modules=_FALCON, layers="transformer.h.{}.")),
)
