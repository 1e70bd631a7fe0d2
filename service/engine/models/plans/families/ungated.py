"""Arcee, Apertus, Jais 2, Nemotron and StarCoder2: an MLP without a gate (up, activation, down)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of, rotary_of, windows_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan
from service.engine.models.plans.sources import Source, Tensors


def _layer(config: Any, **options: Any) -> LayerPlan:
    has_bias = bool(config.attention_bias)
    return LayerPlan(
        attention=attention_of(config, has_qkv_bias=has_bias, has_output_bias=has_bias, **options),
        feed_forward=dense_of(config, is_gated=False),
    )


def _arcee(config: Any) -> DecoderPlan:
    return decoder_of(config, [_layer(config)] * config.num_hidden_layers)


def _apertus(config: Any) -> DecoderPlan:
    return decoder_of(config, [_layer(config, head_norm="head")] * config.num_hidden_layers)


def _jais2(config: Any) -> DecoderPlan:
    layers = [_layer(config)] * config.num_hidden_layers
    return decoder_of(config, layers, norm_kind="layer", norm_epsilon=config.layer_norm_eps, has_norm_bias=True)


def _nemotron(config: Any) -> DecoderPlan:
    return decoder_of(
        config,
        [_layer(config)] * config.num_hidden_layers,
        norm_kind="layer",
        norm_epsilon=config.norm_eps,
        has_norm_bias=True,
        rotary=(rotary_of(config, is_partial=True),),
    )


def _starcoder2(config: Any) -> DecoderPlan:
    has_bias = bool(config.use_bias)
    layers = [
        LayerPlan(
            attention=attention_of(config, window=window, has_qkv_bias=has_bias, has_output_bias=has_bias),
            feed_forward=dense_of(config, is_gated=False, has_bias=has_bias),
        )
        for window in windows_of(config)
    ]
    return decoder_of(config, layers, norm_kind="layer", norm_epsilon=config.norm_epsilon, has_norm_bias=True)


def _curve(*parts: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return xIELU's parameters as the kernels take them: softplus(alpha_p), beta + softplus(alpha_n), beta, eps."""
    above, below, slope, limit = (part.reshape(()) for part in parts)
    return np.array([np.logaddexp(0, above), slope + np.logaddexp(0, below), slope, limit], np.float32)


_APERTUS: Final = {
    "input_layernorm": Source("attention_layernorm"),
    "post_attention_layernorm": Source("feedforward_layernorm"),
    "mlp.curve": Source(
        "mlp.act_fn", parts=(("alpha_p", (1,)), ("alpha_n", (1,)), ("beta", ()), ("eps", ())), combine=_curve
    ),
}
_NEMOTRON: Final = {
    name: Source(name, added=1.0) for name in ("model.norm", "input_layernorm", "post_attention_layernorm")
}
_STARCODER2: Final = {"mlp.up_proj": Source("mlp.c_fc"), "mlp.down_proj": Source("mlp.c_proj")}

FAMILIES: Final = (
    Family(types=("arcee",), plan=_arcee),
    Family(types=("apertus",), plan=_apertus, tensors=Tensors(modules=_APERTUS)),
    Family(types=("jais2",), plan=_jais2),
    Family(types=("nemotron",), plan=_nemotron, tensors=Tensors(modules=_NEMOTRON)),
    Family(types=("starcoder2",), plan=_starcoder2, tensors=Tensors(modules=_STARCODER2)),
)
