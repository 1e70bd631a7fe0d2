"""ModernBERT: pre-norms, RoPE, and sliding windows in most layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from service.engine.models.plans.encoder_family import EncoderFamily, Head, HeadLayer, HeadNorm, encoder_of
from service.engine.models.plans.family import Family, activation_of, attention_of, dense_of, kinds_of, rotary_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan, PlanUnsupportedError
from service.engine.models.plans.rows import first_rows, key_rows, query_rows, second_rows, value_rows
from service.engine.models.plans.sources import Source, Tensors

_TABLES: Final = ("full_attention", "sliding_attention")
_HEAD_ACTIVATIONS: Final = {"gelu": "GELU", "silu": "SiLU", "relu": "ReLU", "tanh": "Tanh"}


def _modernbert(config: Any) -> DecoderPlan:
    feed_forward = dense_of(config, activation=activation_of(config, "hidden_activation"))
    layers = [
        LayerPlan(
            attention=attention_of(
                config,
                window=config.local_attention // 2 + 1 if kind == "sliding_attention" else 0,
                rotary=_TABLES.index(kind),
                has_qkv_bias=bool(config.attention_bias),
                has_output_bias=bool(config.attention_bias),
                is_causal=False,
            ),
            feed_forward=feed_forward,
        )
        for kind in kinds_of(config)
    ]
    layers[0] = replace(layers[0], has_attention_norm=False)  # its input is the embedding's norm
    return encoder_of(
        config,
        layers,
        rotary=tuple(rotary_of(config, config.rope_parameters[kind]) for kind in _TABLES),
        norm_epsilon=config.norm_eps,
        has_norm_bias=bool(config.norm_bias),
        has_final_norm=True,
    )


def _head(config: Any) -> Head:
    if config.classifier_activation not in _HEAD_ACTIVATIONS:
        raise PlanUnsupportedError(f"classifier_activation is {config.classifier_activation!r}")
    dense = HeadLayer(
        "head.dense",
        _HEAD_ACTIVATIONS[config.classifier_activation],
        has_bias=bool(config.classifier_bias),
        norm=HeadNorm("head.norm", config.norm_eps, has_bias=bool(config.norm_bias)),
    )
    return Head(config.classifier_pooling, (dense, HeadLayer("classifier")))


_TENSORS: Final = Tensors(
    modules={
        "model.embed_tokens": Source("model.embeddings.tok_embeddings"),
        "model.embed_norm": Source("model.embeddings.norm"),
        "model.norm": Source("model.final_norm"),
        "input_layernorm": Source("attn_norm"),
        "post_attention_layernorm": Source("mlp_norm"),
        "self_attn.q_proj": Source("attn.Wqkv", rows=query_rows),
        "self_attn.k_proj": Source("attn.Wqkv", rows=key_rows),
        "self_attn.v_proj": Source("attn.Wqkv", rows=value_rows),
        "self_attn.o_proj": Source("attn.Wo"),
        "mlp.gate_proj": Source("mlp.Wi", rows=first_rows),
        "mlp.up_proj": Source("mlp.Wi", rows=second_rows),
        "mlp.down_proj": Source("mlp.Wo"),
    }
)

FAMILIES: Final = (EncoderFamily(Family(types=("modernbert",), plan=_modernbert, tensors=_TENSORS), _head),)
