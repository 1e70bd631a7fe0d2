"""DeepSeek-V2 and V3, and GLM-4.7-Flash: latent attention (MLA), grouped experts and a shared expert."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.expert_sources import FUSED, ExpertTensors
from service.engine.models.plans.families.experts.layers import (
    SHARED_EXPERTS,
    experts_of,
    layers_of,
    sigmoid_experts_of,
    sparse_after,
)
from service.engine.models.plans.families.latents.attention import (
    HALVED_LATENT_ROTATION,
    latent_attention_of,
    latent_rotary_of,
)
from service.engine.models.plans.family import Family, decoder_of, require
from service.engine.models.plans.plan import DecoderPlan, ExpertsPlan, PlanUnsupportedError
from service.engine.models.plans.sources import Tensors


def _decoder(config: Any, experts: ExpertsPlan, is_sparse: list[bool]) -> DecoderPlan:
    attention = [latent_attention_of(config)] * config.num_hidden_layers
    return decoder_of(config, layers_of(config, attention, experts, is_sparse), rotary=(latent_rotary_of(config),))


def _deepseek_v2(config: Any) -> DecoderPlan:
    # transformers ignores norm_topk_prob, and chooses among the groups with the highest scores.
    methods = {"greedy": (1, 1), "group_limited_greedy": (config.n_group, config.topk_group)}
    if config.topk_method not in methods:
        raise PlanUnsupportedError(f"topk_method is {config.topk_method!r}")
    num_groups, num_chosen_groups = methods[config.topk_method]
    experts = experts_of(
        config,
        width=config.moe_intermediate_size,
        num_groups=num_groups,
        num_chosen_groups=num_chosen_groups,
        scale=float(config.routed_scaling_factor),
        shared_width=config.moe_intermediate_size * config.n_shared_experts,
    )
    require(config, "mlp_bias", False)
    return _decoder(config, experts, sparse_after(config))


def _deepseek_v3(config: Any) -> DecoderPlan:
    require(config, "rope_interleave", True)
    return _decoder(config, _experts(config), sparse_after(config))


def _glm4_moe_lite(config: Any) -> DecoderPlan:
    require(config, "rope_interleave", True)
    return _decoder(config, _experts(config), [kind == "sparse" for kind in config.mlp_layer_types])


def _experts(config: Any) -> ExpertsPlan:
    return sigmoid_experts_of(config, shared_width=config.moe_intermediate_size * config.n_shared_experts)


_MODULES: Final = SHARED_EXPERTS | HALVED_LATENT_ROTATION
_PREDICTORS: Final = ("model.layers.{}.",)
_TENSORS: Final[dict[str, Any]] = {
    "tensors": Tensors(modules=_MODULES, experts=ExpertTensors(), predictors=_PREDICTORS),
    "alternatives": (Tensors(modules=_MODULES, experts=FUSED, predictors=_PREDICTORS),),
}
FAMILIES: Final = (
    Family(types=("deepseek_v2",), plan=_deepseek_v2, **_TENSORS),
    Family(types=("deepseek_v3",), plan=_deepseek_v3, **_TENSORS),
    Family(types=("glm4_moe_lite",), plan=_glm4_moe_lite, **_TENSORS),
)
