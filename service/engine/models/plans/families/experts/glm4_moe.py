"""GLM-4.5: partial RoPE like GLM-4's, and experts like DeepSeek-V3's."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.expert_sources import FUSED, ExpertTensors
from service.engine.models.plans.families.experts.layers import (
    SHARED_EXPERTS,
    layers_of,
    sigmoid_experts_of,
    sparse_after,
)
from service.engine.models.plans.family import Family, attention_of, decoder_of, rotary_of
from service.engine.models.plans.plan import DecoderPlan
from service.engine.models.plans.sources import Tensors


def _plan(config: Any) -> DecoderPlan:
    attention = attention_of(
        config, has_qkv_bias=bool(config.attention_bias), head_norm="head" if config.use_qk_norm else "none"
    )
    experts = sigmoid_experts_of(config, shared_width=config.moe_intermediate_size * config.n_shared_experts)
    layers = layers_of(config, [attention] * config.num_hidden_layers, experts, sparse_after(config))
    return decoder_of(config, layers, rotary=(rotary_of(config, is_partial=True),))


_PREDICTORS: Final = ("model.layers.{}.",)
FAMILIES: Final = (
    Family(
        types=("glm4_moe",),
        plan=_plan,
        tensors=Tensors(modules=SHARED_EXPERTS, experts=ExpertTensors(), predictors=_PREDICTORS),
        alternatives=(Tensors(modules=SHARED_EXPERTS, experts=FUSED, predictors=_PREDICTORS),),
    ),
)
