"""DistilBERT: BERT's layers under other names, without token types."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.encoder_family import EncoderFamily, Head, HeadLayer, encoder_of, post_norm_layer
from service.engine.models.plans.family import Family, activation_of, dense_of
from service.engine.models.plans.plan import DecoderPlan
from service.engine.models.plans.sources import Source, Tensors

_NORM_EPSILON: Final = 1e-12  # not in its configuration


def _distilbert(config: Any) -> DecoderPlan:
    feed_forward = dense_of(
        config,
        width=config.hidden_dim,
        activation=activation_of(config, "activation"),
        is_gated=False,
        has_bias=True,
    )
    return encoder_of(
        config,
        [post_norm_layer(config, feed_forward)] * config.num_hidden_layers,
        norm_epsilon=_NORM_EPSILON,
        num_positions=config.max_position_embeddings,
    )


_TENSORS: Final = Tensors(
    modules={
        "model.embed_tokens": Source("distilbert.embeddings.word_embeddings"),
        "model.embed_positions": Source("distilbert.embeddings.position_embeddings"),
        "model.embed_norm": Source("distilbert.embeddings.LayerNorm"),
        "self_attn.q_proj": Source("attention.q_lin"),
        "self_attn.k_proj": Source("attention.k_lin"),
        "self_attn.v_proj": Source("attention.v_lin"),
        "self_attn.o_proj": Source("attention.out_lin"),
        "attention_sum_norm": Source("sa_layer_norm"),
        "mlp.up_proj": Source("ffn.lin1"),
        "mlp.down_proj": Source("ffn.lin2"),
        "mlp_sum_norm": Source("output_layer_norm"),
    },
    layers="distilbert.transformer.layer.{}.",
)


def _head(_: Any) -> Head:
    return Head("cls", (HeadLayer("pre_classifier", "ReLU"), HeadLayer("classifier")))


FAMILIES: Final = (EncoderFamily(Family(types=("distilbert",), plan=_distilbert, tensors=_TENSORS), _head),)
