"""EXAONE MoE: experts like DeepSeek-V3's; only layers with a sliding window have RoPE."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.expert_sources import FUSED, ExpertTensors
from service.engine.models.plans.families.experts.layers import SHARED_EXPERTS, layers_of, sigmoid_experts_of
from service.engine.models.plans.family import Family, attention_of, decoder_of, windows_of
from service.engine.models.plans.plan import DecoderPlan
from service.engine.models.plans.sources import Source, Tensors


def _plan(config: Any) -> DecoderPlan:
    has_windows = config.sliding_window is not None
    attention = [
        attention_of(config, window=window, rotary=-1 if has_windows and window == 0 else 0, head_norm="head")
        for window in windows_of(config)
    ]
    width = config.moe_intermediate_size * config.num_shared_experts
    experts = sigmoid_experts_of(config, shared_width=width)
    is_sparse = [kind == "sparse" for kind in config.mlp_layer_types]
    return decoder_of(config, layers_of(config, attention, experts, is_sparse))


_CORRECTION: Final = {"mlp.gate.e_score_correction_bias": Source("mlp.e_score_correction_bias")}
_PREDICTORS: Final = ("mtp.",)
FAMILIES: Final = (
    Family(
        types=("exaone_moe",),
        plan=_plan,
        tensors=Tensors(modules={**SHARED_EXPERTS, **_CORRECTION}, experts=ExpertTensors(), predictors=_PREDICTORS),
        alternatives=(Tensors(modules=SHARED_EXPERTS, experts=FUSED, predictors=_PREDICTORS),),
    ),
)
