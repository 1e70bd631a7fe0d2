"""OLMo: LayerNorm without weights. OLMo 2 and 3: QK norm over all heads, and post-norms instead of pre-norms."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.family import (
    Family,
    attention_of,
    decoder_of,
    dense_of,
    kinds_of,
    rotary_of,
    windows_of,
)
from service.engine.models.plans.plan import DecoderPlan, LayerPlan
from service.engine.models.plans.sources import Source, Tensors

_TABLES: Final = ("full_attention", "sliding_attention")


def _biases(config: Any) -> dict[str, bool]:
    has_bias = bool(config.attention_bias)
    return {"has_qkv_bias": has_bias, "has_output_bias": has_bias}


def _olmo(config: Any) -> DecoderPlan:
    layer = LayerPlan(
        attention=attention_of(config, clip=config.clip_qkv or 0.0, **_biases(config)), feed_forward=dense_of(config)
    )
    return decoder_of(config, [layer] * config.num_hidden_layers, norm_kind="layer", norm_epsilon=1e-5)


def _later(config: Any, **options: Any) -> LayerPlan:
    return LayerPlan(
        attention=attention_of(config, head_norm="whole", **_biases(config), **options),
        feed_forward=dense_of(config),
        has_attention_norm=False,
        has_attention_output_norm=True,
        has_mlp_norm=False,
        has_mlp_output_norm=True,
    )


def _olmo2(config: Any) -> DecoderPlan:
    return decoder_of(config, [_later(config)] * config.num_hidden_layers)


def _olmo3(config: Any) -> DecoderPlan:
    layers = [
        _later(config, window=window, rotary=_TABLES.index(kind))
        for window, kind in zip(windows_of(config), kinds_of(config), strict=True)
    ]
    tables = tuple(rotary_of(config, config.rope_parameters[kind]) for kind in _TABLES)
    return decoder_of(config, layers, rotary=tables)


_ONES: Final = Source("", constant=1.0)
_UNWEIGHTED: Final = dict.fromkeys(("model.norm", "input_layernorm", "post_attention_layernorm"), _ONES)
OUTPUT_NORMS: Final = {
    "post_self_attn_layernorm": Source("post_attention_layernorm"),
    "post_mlp_layernorm": Source("post_feedforward_layernorm"),
}

FAMILIES: Final = (
    Family(types=("olmo",), plan=_olmo, tensors=Tensors(modules=_UNWEIGHTED)),
    Family(types=("olmo2",), plan=_olmo2, tensors=Tensors(modules=OUTPUT_NORMS)),
    Family(types=("olmo3",), plan=_olmo3, tensors=Tensors(modules=OUTPUT_NORMS)),
)
