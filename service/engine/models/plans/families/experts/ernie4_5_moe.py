"""ERNIE 4.5 MoE: RoPE over interleaved pairs, softmax routing with a bias on the selection, a shared expert."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.expert_sources import FUSED, ExpertTensors
from service.engine.models.plans.families.experts.layers import SHARED_EXPERTS, experts_of, layers_of
from service.engine.models.plans.family import Family, attention_of, decoder_of, require
from service.engine.models.plans.plan import DecoderPlan
from service.engine.models.plans.rows import HALVED_ROTATION
from service.engine.models.plans.sources import Source, Tensors


def _plan(config: Any) -> DecoderPlan:
    require(config, "use_bias", False)
    attention = attention_of(config)
    experts = experts_of(
        config,
        width=config.moe_intermediate_size,
        has_correction=True,
        is_renormalized=True,
        least_sum=float(config.moe_norm_min),
        shared_width=config.moe_intermediate_size * config.moe_num_shared_experts,
    )
    first, last, interval = config.moe_layer_start_index, config.moe_layer_end_index, config.moe_layer_interval
    is_sparse = [first <= i <= last and (i + 1) % interval == 0 for i in range(config.num_hidden_layers)]
    return decoder_of(config, layers_of(config, [attention] * config.num_hidden_layers, experts, is_sparse))


_MODULES: Final = {**HALVED_ROTATION, **SHARED_EXPERTS}
_CORRECTION: Final = "mlp.gate.e_score_correction_bias"
_STORED: Final = {**_MODULES, _CORRECTION: Source("mlp.moe_statics.e_score_correction_bias", is_row=True)}
_LOADED: Final = {**_MODULES, _CORRECTION: Source("mlp.gate.moe_statics.e_score_correction_bias", is_row=True)}
_PREDICTORS: Final = ("model.mtp_",)
FAMILIES: Final = (
    Family(
        types=("ernie4_5_moe",),
        plan=_plan,
        tensors=Tensors(modules=_STORED, experts=ExpertTensors(), predictors=_PREDICTORS),
        alternatives=(Tensors(modules=_LOADED, experts=FUSED, predictors=_PREDICTORS),),
    ),
)
