"""The table of families."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.families import (
    ernie,
    exaone4,
    glm,
    granite,
    hunyuan,
    llama,
    olmo,
    phi3,
    qwen,
    seed_oss,
    smollm3,
    ungated,
)
from service.engine.models.plans.families.experts import (
    dots1,
    ernie4_5_moe,
    exaone_moe,
    flex_olmo,
    glm4_moe,
    gpt_oss,
    granitemoe,
    hunyuan_v1_moe,
    minimax_m2,
    mixtral,
    olmoe,
    qwen2_moe,
    qwen3_moe,
)
from service.engine.models.plans.families.gemma import gemma, gemma4
from service.engine.models.plans.families.latents import deepseek, dense
from service.engine.models.plans.families.layer_norms import cohere, neox, stablelm
from service.engine.models.plans.families.recurrent import delta_net, falcon_h1, lfm2, mamba, mamba2, minimax
from service.engine.models.plans.family import Family
from service.engine.models.plans.plan import DecoderPlan, PlanUnsupportedError

_RECURRENT_MODULES: Final = (delta_net, falcon_h1, lfm2, mamba, mamba2, minimax)
_MODULES: Final = (
    *(cohere, ernie, exaone4, gemma, gemma4, glm, granite, hunyuan, llama, neox, olmo, phi3, qwen, seed_oss),
    *(smollm3, stablelm, ungated),
    *(dots1, ernie4_5_moe, exaone_moe, flex_olmo, glm4_moe, gpt_oss, granitemoe),
    *(hunyuan_v1_moe, minimax_m2, mixtral, olmoe, qwen2_moe, qwen3_moe),
    *(deepseek, dense),
    *_RECURRENT_MODULES,
)
FAMILIES: Final[dict[str, Family]] = {
    kind: family for module in _MODULES for family in module.FAMILIES for kind in family.types
}
RECURRENT: Final = frozenset(
    kind for module in _RECURRENT_MODULES for family in module.FAMILIES for kind in family.types
)


def plan_of(config: Any) -> DecoderPlan:
    """Return the plan of a configuration. Raise PlanUnsupportedError for one that no plan describes."""
    if config.model_type not in FAMILIES:
        raise PlanUnsupportedError(f"the model_type {config.model_type} has no layer plan")
    plan = family_plan(FAMILIES[config.model_type], config)
    if not all(layer.is_causal for layer in plan.layers):
        raise PlanUnsupportedError("its tokens attend to later ones (use_bidirectional_attention), so it only embeds")
    return plan


def family_plan(family: Family, config: Any) -> DecoderPlan:
    """Return a family's plan of a configuration. Raise PlanUnsupportedError for one that no plan describes."""
    try:
        return family.plan(config)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise PlanUnsupportedError(f"the configuration can't be read: {error!r}") from error
