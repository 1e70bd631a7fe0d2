"""Cohere's Command R: attention and MLP in parallel behind one norm, RoPE over interleaved pairs, scaled logits."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of, windows_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan
from service.engine.models.plans.rows import HALVED_ROTATION, halved_rows
from service.engine.models.plans.sources import Source, Tensors


def _layer(config: Any, **options: Any) -> LayerPlan:
    has_bias = bool(config.attention_bias)
    return LayerPlan(
        attention=attention_of(config, has_qkv_bias=has_bias, has_output_bias=has_bias, **options),
        feed_forward=dense_of(config, has_bias=False),
        has_mlp_norm=False,
        is_parallel=True,
    )


def _decoder(config: Any, layers: list[LayerPlan]) -> DecoderPlan:
    return decoder_of(
        config, layers, norm_kind="layer", norm_epsilon=config.layer_norm_eps, logit_multiplier=config.logit_scale
    )


def _cohere(config: Any) -> DecoderPlan:
    layer = _layer(config, head_norm="heads" if config.use_qk_norm else "none")
    return _decoder(config, [layer] * config.num_hidden_layers)


def _cohere2(config: Any) -> DecoderPlan:
    # Only sliding layers are rotated.
    return _decoder(
        config, [_layer(config, window=window, rotary=0 if window else -1) for window in windows_of(config)]
    )


_HEAD_NORMS: Final = {
    "self_attn.q_norm": Source("self_attn.q_norm", rows=halved_rows("queries"), is_by_head=True),
    "self_attn.k_norm": Source("self_attn.k_norm", rows=halved_rows("keys"), is_by_head=True),
}

FAMILIES: Final = (
    Family(types=("cohere",), plan=_cohere, tensors=Tensors(modules=HALVED_ROTATION | _HEAD_NORMS)),
    Family(types=("cohere2",), plan=_cohere2, tensors=Tensors(modules=HALVED_ROTATION)),
)
