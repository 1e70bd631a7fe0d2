"""Llama, Mistral, BitNet, and decoders whose configurations and checkpoints are like theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of, windows_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan
from service.engine.models.plans.sources import Source, Tensors


def _decoder(config: Any, windows: list[int], **options: Any) -> DecoderPlan:
    """Return the plan of layers with these windows; `options` are those of attention."""
    has_bias = bool(getattr(config, "attention_bias", False))
    layers = [
        LayerPlan(
            attention=attention_of(config, window=window, has_qkv_bias=has_bias, has_output_bias=has_bias, **options),
            feed_forward=dense_of(config),
        )
        for window in windows
    ]
    return decoder_of(config, layers)


def _llama(config: Any) -> DecoderPlan:
    return _decoder(config, [0] * config.num_hidden_layers)


def _mistral(config: Any) -> DecoderPlan:
    return _decoder(config, windows_of(config))


def _ministral3(config: Any) -> DecoderPlan:
    rope = config.rope_parameters
    growth, period = float(rope["llama_4_scaling_beta"]), int(rope["original_max_position_embeddings"])
    return _decoder(config, windows_of(config), growth=growth, growth_period=period)


def _bitnet(config: Any) -> DecoderPlan:
    plan = _llama(config)
    return replace(
        plan, layers=tuple(replace(layer, has_attended_norm=True, has_inner_norm=True) for layer in plan.layers)
    )


_SUB_NORMS: Final = Tensors(
    modules={
        "self_attn.attended_norm": Source("self_attn.attn_sub_norm"),
        "mlp.inner_norm": Source("mlp.ffn_sub_norm"),
    }
)

FAMILIES: Final = (
    Family(types=("llama", "internlm3", "iquestcoder"), plan=_llama),
    Family(types=("mistral", "ministral", "cwm"), plan=_mistral),
    Family(types=("ministral3",), plan=_ministral3),
    Family(types=("bitnet",), plan=_bitnet, tensors=_SUB_NORMS),
)
