"""FlexOlmo: OLMo 2 with experts instead of a dense MLP."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.expert_sources import FUSED, ExpertTensors
from service.engine.models.plans.families.experts.layers import experts_of, layers_of, sparse_everywhere
from service.engine.models.plans.families.olmo import OUTPUT_NORMS
from service.engine.models.plans.family import Family, attention_of, decoder_of
from service.engine.models.plans.plan import DecoderPlan
from service.engine.models.plans.sources import Tensors


def _plan(config: Any) -> DecoderPlan:
    has_bias = bool(config.attention_bias)
    attention = attention_of(config, has_qkv_bias=has_bias, has_output_bias=has_bias, head_norm="whole")
    experts = experts_of(config, is_renormalized=bool(config.norm_topk_prob))
    norms = {
        "has_attention_norm": False,
        "has_attention_output_norm": True,
        "has_mlp_norm": False,
        "has_mlp_output_norm": True,
    }
    attentions = [attention] * config.num_hidden_layers
    return decoder_of(config, layers_of(config, attentions, experts, sparse_everywhere(config), **norms))


FAMILIES: Final = (
    Family(
        types=("flex_olmo",),
        plan=_plan,
        tensors=Tensors(modules=OUTPUT_NORMS, experts=ExpertTensors()),
        alternatives=(Tensors(modules=OUTPUT_NORMS, experts=FUSED),),
    ),
)
