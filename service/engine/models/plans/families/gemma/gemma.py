"""Gemma, Gemma 2, VaultGemma and Gemma 3: norm weights stored as w - 1, a scaled embedding; 2 and 3 have post-norms."""

from __future__ import annotations

from typing import Any, Final

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
from service.engine.models.plans.plan import DecoderPlan, LayerPlan
from service.engine.models.plans.sources import Source, Tensors

_TABLES: Final = ("full_attention", "sliding_attention")  # of Gemma 3


def _gemma(config: Any) -> DecoderPlan:
    require(config, "use_bidirectional_attention", None, False)
    has_bias = bool(config.attention_bias)
    layer = LayerPlan(
        attention=attention_of(config, has_qkv_bias=has_bias, has_output_bias=has_bias),
        feed_forward=dense_of(config),
    )
    return decoder_of(config, [layer] * config.num_hidden_layers, embedding_multiplier=config.hidden_size**0.5)


def _later(config: Any, *, has_output_norms: bool = True, **options: Any) -> list[LayerPlan]:
    """Return the layers of Gemma 2 and 3; `options` are those of attention."""
    has_bias = bool(config.attention_bias)
    usual = {
        "scale": config.query_pre_attn_scalar**-0.5,
        "has_qkv_bias": has_bias,
        "has_output_bias": has_bias,
    }
    return [
        LayerPlan(
            attention=attention_of(config, **usual, **{"window": window, "rotary": 0} | options | rotary),
            feed_forward=dense_of(config, activation=activation_of(config, "hidden_activation")),
            has_attention_output_norm=has_output_norms,
            has_mlp_output_norm=has_output_norms,
        )
        for window, rotary in zip(windows_of(config), _rotary_by_layer(config), strict=True)
    ]


def _rotary_by_layer(config: Any) -> list[dict[str, int]]:
    """Return the option of each layer that names its rotary table, if layers have different ones."""
    if "rope_type" in config.rope_parameters:
        return [{}] * config.num_hidden_layers
    return [{"rotary": _TABLES.index(kind)} for kind in kinds_of(config)]


def _gemma2(config: Any) -> DecoderPlan:
    require(config, "use_bidirectional_attention", None, False)
    return decoder_of(
        config,
        _later(config, soft_cap=config.attn_logit_softcapping or 0.0),
        embedding_multiplier=config.hidden_size**0.5,
        logit_soft_cap=config.final_logit_softcapping or 0.0,
    )


def _vault_gemma(config: Any) -> DecoderPlan:
    require(config, "use_bidirectional_attention", None, False)
    return decoder_of(
        config,
        _later(config, has_output_norms=False, soft_cap=config.attn_logit_softcapping or 0.0),
        embedding_multiplier=config.hidden_size**0.5,
        logit_soft_cap=config.final_logit_softcapping or 0.0,
    )


def _gemma3(config: Any) -> DecoderPlan:
    # transformers' Gemma 3 ignores attn_logit_softcapping. Its sliding_window is already the distance that the plan's
    # window is, also with attention to later tokens (EmbeddingGemma).
    return decoder_of(
        config,
        _later(config, head_norm="head", is_causal=not config.use_bidirectional_attention),
        rotary=tuple(rotary_of(config, config.rope_parameters[kind]) for kind in _TABLES),
        embedding_multiplier=config.hidden_size**0.5,
        logit_soft_cap=config.final_logit_softcapping or 0.0,
    )


def _one_more(module: str) -> Source:
    return Source(module, added=1.0)


_NORMS: Final = {
    name: _one_more(name)
    for name in ("model.norm", "input_layernorm", "post_attention_layernorm", "self_attn.q_norm", "self_attn.k_norm")
}
_LATER_NORMS: Final = _NORMS | {
    "post_self_attn_layernorm": _one_more("post_attention_layernorm"),
    "post_attention_layernorm": _one_more("pre_feedforward_layernorm"),
    "post_mlp_layernorm": _one_more("post_feedforward_layernorm"),
}

FAMILIES: Final = (
    Family(types=("gemma",), plan=_gemma, tensors=Tensors(modules=_NORMS)),
    Family(types=("gemma2",), plan=_gemma2, tensors=Tensors(modules=_LATER_NORMS)),
    Family(types=("vaultgemma",), plan=_vault_gemma, tensors=Tensors(modules=_LATER_NORMS)),
    Family(types=("gemma3_text",), plan=_gemma3, tensors=Tensors(modules=_LATER_NORMS)),
)
