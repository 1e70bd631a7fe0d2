"""Qwen2 with experts and a gated shared expert in some or all layers."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.expert_sources import FUSED, ExpertTensors
from service.engine.models.plans.families.experts.layers import experts_of, layers_of, sparse_by_step
from service.engine.models.plans.family import Family, attention_of, decoder_of, windows_of
from service.engine.models.plans.plan import DecoderPlan
from service.engine.models.plans.sources import Tensors


def _plan(config: Any) -> DecoderPlan:
    has_bias = bool(config.qkv_bias)
    attention = [attention_of(config, window=window, has_qkv_bias=has_bias) for window in windows_of(config)]
    experts = experts_of(
        config,
        width=config.moe_intermediate_size,
        is_renormalized=bool(config.norm_topk_prob),
        shared_width=config.shared_expert_intermediate_size,
        has_shared_gate=True,
    )
    return decoder_of(config, layers_of(config, attention, experts, sparse_by_step(config)))


FAMILIES: Final = (
    Family(
        types=("qwen2_moe",),
        plan=_plan,
        tensors=Tensors(modules={}, experts=ExpertTensors()),
        alternatives=(Tensors(modules={}, experts=FUSED),),
    ),
)
