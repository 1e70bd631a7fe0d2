"""Mixtral: Mistral with experts."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.expert_sources import FUSED, ExpertTensors
from service.engine.models.plans.families.experts.layers import experts_of, layers_of, sparse_everywhere
from service.engine.models.plans.family import Family, attention_of, decoder_of, windows_of
from service.engine.models.plans.plan import DecoderPlan
from service.engine.models.plans.sources import Source, Tensors


def _plan(config: Any) -> DecoderPlan:
    attention = [attention_of(config, window=window) for window in windows_of(config)]
    experts = experts_of(config, is_renormalized=True)
    return decoder_of(config, layers_of(config, attention, experts, sparse_everywhere(config)))


SEPARATE: Final = ExpertTensors(
    gate="block_sparse_moe.experts.{}.w1",
    up="block_sparse_moe.experts.{}.w3",
    down="block_sparse_moe.experts.{}.w2",
)
FAMILIES: Final = (
    Family(
        types=("mixtral",),
        plan=_plan,
        tensors=Tensors(modules={"mlp.gate": Source("block_sparse_moe.gate")}, experts=SEPARATE),
        alternatives=(Tensors(modules={}, experts=FUSED),),
    ),
)
