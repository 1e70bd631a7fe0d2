"""Granite with experts: alone, with a shared expert, and with sinks, windows and rotary tables by layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from service.engine.models.plans.expert_sources import ExpertTensors
from service.engine.models.plans.families.experts.layers import experts_of
from service.engine.models.plans.families.granite import granite_plan, granite_swa_plan
from service.engine.models.plans.family import Family
from service.engine.models.plans.plan import DecoderPlan, ExpertsPlan, LayerPlan
from service.engine.models.plans.sources import Source, Tensors


def _with_experts(config: Any, plan: DecoderPlan) -> DecoderPlan:
    """Return a dense plan with experts instead of the dense parts."""
    width = getattr(config, "shared_intermediate_size", 0)
    experts: ExpertsPlan = experts_of(config, scores="chosen_softmax", shared_width=width)
    return replace(plan, layers=tuple(replace(layer, feed_forward=experts) for layer in plan.layers))


def _shared_width(layer: LayerPlan) -> int:
    return layer.feed_forward.shared_width if isinstance(layer.feed_forward, ExpertsPlan) else 0


def _gate_rows(_plan: DecoderPlan, layer: LayerPlan) -> slice:
    return slice(0, _shared_width(layer))


def _up_rows(_plan: DecoderPlan, layer: LayerPlan) -> slice:
    return slice(_shared_width(layer), 2 * _shared_width(layer))


SHARED: Final = {
    "mlp.shared_expert.gate_proj": Source("shared_mlp.input_linear", rows=_gate_rows),
    "mlp.shared_expert.up_proj": Source("shared_mlp.input_linear", rows=_up_rows),
    "mlp.shared_expert.down_proj": Source("shared_mlp.output_linear"),
}
STORED_EXPERTS: Final = ExpertTensors(
    gate="block_sparse_moe.input_linear", up="block_sparse_moe.input_linear", down="block_sparse_moe.output_linear"
)
LOADED_EXPERTS: Final = ExpertTensors(
    gate="block_sparse_moe.experts.gate_up_proj",
    up="block_sparse_moe.experts.gate_up_proj",
    down="block_sparse_moe.experts.down_proj",
    weight="",
)
_ROUTER: Final = {"mlp.gate": Source("block_sparse_moe.router.layer")}
_STORED: Final = Tensors(modules=SHARED | _ROUTER, experts=STORED_EXPERTS)
_LOADED: Final = Tensors(modules={**SHARED, "mlp.gate": Source("block_sparse_moe.router")}, experts=LOADED_EXPERTS)
_SEPARATE: Final = Tensors(  # of GGUF files
    modules=_ROUTER | {"mlp.shared_expert.down_proj": SHARED["mlp.shared_expert.down_proj"]}, experts=ExpertTensors()
)


def _granitemoe(config: Any) -> DecoderPlan:
    return _with_experts(config, granite_plan(config))


def _granitemoe_swa(config: Any) -> DecoderPlan:
    return _with_experts(config, granite_swa_plan(config))


FAMILIES: Final = (
    Family(
        types=("granitemoe", "granitemoeshared"),
        plan=_granitemoe,
        tensors=_STORED,
        alternatives=(_LOADED, _SEPARATE),
    ),
    Family(types=("granitemoe_swa",), plan=_granitemoe_swa, tensors=_STORED, alternatives=(_LOADED,)),
)
