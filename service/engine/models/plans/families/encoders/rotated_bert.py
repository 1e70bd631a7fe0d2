"""Nomic BERT, GTE and Jina v3: BERT's layers with RoPE."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.encoder_family import EncoderFamily, Head, HeadLayer, encoder_of, post_norm_layer
from service.engine.models.plans.family import Family, dense_of, rotary_of
from service.engine.models.plans.plan import DecoderPlan, DensePlan
from service.engine.models.plans.rows import first_rows, key_rows, query_rows, second_rows, value_rows
from service.engine.models.plans.sources import Source, Tensors


def _encoder(config: Any, feed_forward: DensePlan, *, has_bias: bool) -> DecoderPlan:
    layer = post_norm_layer(config, feed_forward, rotary=0, has_qkv_bias=has_bias, has_output_bias=has_bias)
    return encoder_of(
        config,
        [layer] * config.num_hidden_layers,
        rotary=(rotary_of(config),),
        norm_epsilon=config.layer_norm_eps,
        num_types=config.type_vocab_size,
    )


def _nomic(config: Any) -> DecoderPlan:
    return _encoder(config, dense_of(config), has_bias=False)


def _gte(config: Any) -> DecoderPlan:
    return _encoder(config, dense_of(config, has_bias=True), has_bias=True)


def _jina(config: Any) -> DecoderPlan:
    return _encoder(config, dense_of(config, is_gated=False, has_bias=True), has_bias=True)


def _pooled(prefix: str) -> Head:
    return Head("cls", (HeadLayer(f"{prefix}.pooler.dense", "Tanh"), HeadLayer("classifier")))


def _stored(prefix: str, layers: str, norm: str, modules: dict[str, Source], sign: str = "") -> Tensors:
    """Return the names of a checkpoint. `norm` is the norm of the embedding, `sign` a tensor of no other names."""
    embeddings = {
        "model.embed_tokens": Source(f"{prefix}.embeddings.word_embeddings"),
        "model.embed_types": Source(f"{prefix}.embeddings.token_type_embeddings"),
        "model.embed_norm": Source(f"{prefix}.{norm}"),
    }
    return Tensors(modules=modules | embeddings, layers=f"{prefix}.{layers}.{{}}.", sign=sign)


def _loaded(prefix: str, modules: dict[str, Source]) -> Tensors:
    """Return the names of transformers' parameters."""
    norms = {"attention_sum_norm": Source("post_attention_layernorm"), "mlp_sum_norm": Source("post_mlp_layernorm")}
    sign = f"{prefix}.layers.0.self_attn.q_proj.weight"
    return _stored(prefix, "layers", "embeddings.LayerNorm", modules | norms, sign)


def _attention(stacked: str, output: str) -> dict[str, Source]:
    return {
        "self_attn.q_proj": Source(stacked, rows=query_rows),
        "self_attn.k_proj": Source(stacked, rows=key_rows),
        "self_attn.v_proj": Source(stacked, rows=value_rows),
        "self_attn.o_proj": Source(output),
    }


_NORMS: Final = {"attention_sum_norm": Source("norm1"), "mlp_sum_norm": Source("norm2")}
_NOMIC: Final = {
    **_attention("attn.Wqkv", "attn.out_proj"),
    **_NORMS,
    "mlp.gate_proj": Source("mlp.fc12"),
    "mlp.up_proj": Source("mlp.fc11"),
    "mlp.down_proj": Source("mlp.fc2"),
}
_GTE: Final = {
    **_attention("attention.qkv_proj", "attention.o_proj"),
    "attention_sum_norm": Source("attn_ln"),
    "mlp_sum_norm": Source("mlp_ln"),
    "mlp.gate_proj": Source("mlp.up_gate_proj", rows=second_rows, has_bias=False),
    "mlp.up_proj": Source("mlp.up_gate_proj", rows=first_rows, has_bias=False),
}
_GTE_LOADED: Final = {f"mlp.{part}_proj": Source(f"mlp.{part}_proj", has_bias=False) for part in ("gate", "up")}
_FEED_FORWARD: Final = {"mlp.up_proj": Source("mlp.fc1"), "mlp.down_proj": Source("mlp.fc2")}
_JINA: Final = {**_attention("mixer.Wqkv", "mixer.out_proj"), **_NORMS, **_FEED_FORWARD}

FAMILIES: Final = (
    EncoderFamily(
        Family(
            types=("nomic_bert",),
            plan=_nomic,
            tensors=_stored("nomic_bert", "encoder.layers", "emb_ln", _NOMIC),
            alternatives=(_loaded("nomic_bert", {}),),
        ),
        lambda _: _pooled("nomic_bert"),
    ),
    EncoderFamily(
        Family(
            types=("gte",),
            plan=_gte,
            tensors=_stored("gte", "encoder.layer", "embeddings.LayerNorm", _GTE),
            alternatives=(_loaded("gte", _GTE_LOADED),),
        ),
        lambda _: _pooled("gte"),
    ),
    EncoderFamily(
        Family(
            types=("jina_embeddings_v3",),
            plan=_jina,
            tensors=_stored("roberta", "encoder.layers", "emb_ln", _JINA),
            alternatives=(_loaded("roberta", _FEED_FORWARD),),
        ),
        lambda _: Head("cls", (HeadLayer("classifier.dense", "Tanh"), HeadLayer("classifier.out_proj"))),
    ),
)
