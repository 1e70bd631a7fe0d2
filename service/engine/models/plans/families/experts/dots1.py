"""dots.llm1: QK norm, sliding windows, and experts like DeepSeek-V3's."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.expert_sources import FUSED, ExpertTensors
from service.engine.models.plans.families.experts.layers import (
    SHARED_EXPERTS,
    layers_of,
    sigmoid_experts_of,
    sparse_after,
)
from service.engine.models.plans.family import Family, attention_of, decoder_of, windows_of
from service.engine.models.plans.plan import DecoderPlan
from service.engine.models.plans.sources import Tensors


def _plan(config: Any) -> DecoderPlan:
    has_bias = bool(config.attention_bias)
    options = {"has_qkv_bias": has_bias, "has_output_bias": has_bias, "head_norm": "head"}
    attention = [attention_of(config, window=window, **options) for window in windows_of(config)]
    experts = sigmoid_experts_of(config, shared_width=config.moe_intermediate_size * config.n_shared_experts)
    return decoder_of(config, layers_of(config, attention, experts, sparse_after(config)))


FAMILIES: Final = (
    Family(
        types=("dots1",),
        plan=_plan,
        tensors=Tensors(modules=SHARED_EXPERTS, experts=ExpertTensors()),
        alternatives=(Tensors(modules=SHARED_EXPERTS, experts=FUSED),),
    ),
)
