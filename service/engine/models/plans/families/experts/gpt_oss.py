"""gpt-oss: attention sinks, sliding windows, and experts with biases and a clamped SwiGLU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from service.engine.models.plans.expert_sources import FUSED, ExpertTensors
from service.engine.models.plans.families.experts.layers import experts_of, layers_of, sparse_everywhere
from service.engine.models.plans.family import Family, attention_of, decoder_of, windows_of
from service.engine.models.plans.plan import DecoderPlan
from service.engine.models.plans.sources import Source, Tensors


def _plan(config: Any) -> DecoderPlan:
    has_bias = bool(config.attention_bias)
    options = {"has_qkv_bias": has_bias, "has_output_bias": has_bias, "has_sinks": True}
    attention = [attention_of(config, window=window, **options) for window in windows_of(config)]
    experts = experts_of(
        config,
        scores="chosen_softmax",
        has_router_bias=True,
        has_bias=True,
        swiglu_limit=float(config.swiglu_limit),
        swiglu_alpha=float(config.swiglu_alpha),
    )
    return decoder_of(config, layers_of(config, attention, experts, sparse_everywhere(config)))


_ROUTER: Final = {"mlp.gate": Source("mlp.router")}
_STORED: Final = replace(FUSED, is_interleaved=True, is_transposed=True)

FAMILIES: Final = (
    Family(
        types=("gpt_oss",),
        plan=_plan,
        tensors=Tensors(modules=_ROUTER, experts=_STORED),
        alternatives=(Tensors(modules=_ROUTER, experts=ExpertTensors()),),
    ),
)
