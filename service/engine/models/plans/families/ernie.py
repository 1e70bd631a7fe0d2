"""ERNIE 4.5 and Helium: Llama with RoPE over adjacent (interleaved) pairs."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan
from service.engine.models.plans.rows import HALVED_ROTATION
from service.engine.models.plans.sources import Tensors


def _ernie(config: Any) -> DecoderPlan:
    has_bias = bool(config.use_bias)
    layer = LayerPlan(
        attention=attention_of(config, has_qkv_bias=has_bias, has_output_bias=has_bias),
        feed_forward=dense_of(config, has_bias=has_bias),
    )
    return decoder_of(config, [layer] * config.num_hidden_layers)


def _helium(config: Any) -> DecoderPlan:
    layer = LayerPlan(
        attention=attention_of(config, has_qkv_bias=bool(config.attention_bias)), feed_forward=dense_of(config)
    )
    return decoder_of(config, [layer] * config.num_hidden_layers)


_TENSORS: Final = Tensors(modules=HALVED_ROTATION)

FAMILIES: Final = (
    Family(types=("ernie4_5",), plan=_ernie, tensors=_TENSORS),
    Family(types=("helium",), plan=_helium, tensors=_TENSORS),
)
