"""BERT, RoBERTa, XLM-RoBERTa and CamemBERT: learned positions, token types, norms after the residual sums."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.encoder_family import EncoderFamily, Head, HeadLayer, encoder_of, post_norm_layer
from service.engine.models.plans.family import Family, dense_of, require
from service.engine.models.plans.plan import DecoderPlan
from service.engine.models.plans.sources import Source, Tensors


def _bert(config: Any, first_position: int = 0) -> DecoderPlan:
    require(config, "position_embedding_type", "absolute")
    require(config, "is_decoder", False)
    layer = post_norm_layer(config, dense_of(config, is_gated=False, has_bias=True))
    return encoder_of(
        config,
        [layer] * config.num_hidden_layers,
        norm_epsilon=config.layer_norm_eps,
        num_positions=config.max_position_embeddings,
        first_position=first_position,
        num_types=config.type_vocab_size,
    )


def _roberta(config: Any) -> DecoderPlan:
    # Positions are numbered from the one after the padding index.
    return _bert(config, config.pad_token_id + 1)


_MODULES: Final = {
    "self_attn.q_proj": Source("attention.self.query"),
    "self_attn.k_proj": Source("attention.self.key"),
    "self_attn.v_proj": Source("attention.self.value"),
    "self_attn.o_proj": Source("attention.output.dense"),
    "attention_sum_norm": Source("attention.output.LayerNorm"),
    "mlp.up_proj": Source("intermediate.dense"),
    "mlp.down_proj": Source("output.dense"),
    "mlp_sum_norm": Source("output.LayerNorm"),
}


def _tensors(prefix: str) -> Tensors:
    embeddings = {
        "model.embed_tokens": Source(f"{prefix}embeddings.word_embeddings"),
        "model.embed_positions": Source(f"{prefix}embeddings.position_embeddings"),
        "model.embed_types": Source(f"{prefix}embeddings.token_type_embeddings"),
        "model.embed_norm": Source(f"{prefix}embeddings.LayerNorm"),
    }
    return Tensors(modules=_MODULES | embeddings, layers=f"{prefix}encoder.layer.{{}}.")


def _bert_head(_: Any) -> Head:
    return Head("cls", (HeadLayer("bert.pooler.dense", "Tanh"), HeadLayer("classifier")))


def _roberta_head(_: Any) -> Head:
    return Head("cls", (HeadLayer("classifier.dense", "Tanh"), HeadLayer("classifier.out_proj")))


FAMILIES: Final = (
    EncoderFamily(Family(types=("bert",), plan=_bert, tensors=_tensors("bert.")), _bert_head),
    EncoderFamily(
        Family(types=("roberta", "xlm-roberta", "camembert"), plan=_roberta, tensors=_tensors("roberta.")),
        _roberta_head,
    ),
)
