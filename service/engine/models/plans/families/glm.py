"""GLM-4: partial RoPE over adjacent (interleaved) pairs, a fused gate_up projection; glm4 adds post-norms."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of, rotary_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan
from service.engine.models.plans.rows import HALVED_ROTATION, STACKED_GATE_UP
from service.engine.models.plans.sources import Tensors


def _plan(config: Any, *, has_output_norms: bool) -> DecoderPlan:
    layer = LayerPlan(
        attention=attention_of(config, has_qkv_bias=bool(config.attention_bias)),
        feed_forward=dense_of(config, has_bias=False),
        has_attention_output_norm=has_output_norms,
        has_mlp_output_norm=has_output_norms,
    )
    return decoder_of(config, [layer] * config.num_hidden_layers, rotary=(rotary_of(config, is_partial=True),))


def _glm(config: Any) -> DecoderPlan:
    return _plan(config, has_output_norms=False)


def _glm4(config: Any) -> DecoderPlan:
    return _plan(config, has_output_norms=True)


_TENSORS: Final = Tensors(modules=HALVED_ROTATION | STACKED_GATE_UP)

FAMILIES: Final = (
    Family(types=("glm",), plan=_glm, tensors=_TENSORS),
    Family(types=("glm4",), plan=_glm4, tensors=_TENSORS),
)
