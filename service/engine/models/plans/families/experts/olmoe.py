"""OLMoE: experts, and QK norm over all heads."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.expert_sources import FUSED, ExpertTensors
from service.engine.models.plans.families.experts.layers import experts_of, layers_of, sparse_everywhere
from service.engine.models.plans.family import Family, attention_of, decoder_of, require
from service.engine.models.plans.plan import DecoderPlan
from service.engine.models.plans.sources import Tensors


def _plan(config: Any) -> DecoderPlan:
    require(config, "clip_qkv", None)  # it follows the norms of queries and keys
    has_bias = bool(config.attention_bias)
    attention = attention_of(config, has_qkv_bias=has_bias, has_output_bias=has_bias, head_norm="whole")
    experts = experts_of(config, is_renormalized=bool(config.norm_topk_prob))
    layers = layers_of(config, [attention] * config.num_hidden_layers, experts, sparse_everywhere(config))
    return decoder_of(config, layers)


FAMILIES: Final = (
    Family(
        types=("olmoe",),
        plan=_plan,
        tensors=Tensors(modules={}, experts=ExpertTensors()),
        alternatives=(Tensors(modules={}, experts=FUSED),),
    ),
)
