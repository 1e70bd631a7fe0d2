"""MiniMax-M2: QK norm over all heads, partial RoPE, and sigmoid routing with a bias on the selection."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.expert_sources import FUSED
from service.engine.models.plans.families.experts.layers import experts_of, layers_of, sparse_everywhere
from service.engine.models.plans.families.experts.mixtral import SEPARATE
from service.engine.models.plans.family import Family, attention_of, decoder_of, rotary_of
from service.engine.models.plans.plan import DecoderPlan
from service.engine.models.plans.sources import Source, Tensors


def _plan(config: Any) -> DecoderPlan:
    attention = [attention_of(config, head_norm="whole")] * config.num_hidden_layers
    experts = experts_of(config, scores="sigmoid", has_correction=True, is_renormalized=True)
    layers = layers_of(config, attention, experts, sparse_everywhere(config))
    return decoder_of(config, layers, rotary=(rotary_of(config, is_partial=True),))


_CORRECTION: Final = "mlp.gate.e_score_correction_bias"
_STORED: Final = {
    "mlp.gate": Source("block_sparse_moe.gate"),
    _CORRECTION: Source("block_sparse_moe.e_score_correction_bias"),
}
FAMILIES: Final = (
    Family(
        types=("minimax_m2",),
        plan=_plan,
        tensors=Tensors(modules=_STORED, experts=SEPARATE),
        alternatives=(Tensors(modules={_CORRECTION: Source("mlp.e_score_correction_bias")}, experts=FUSED),),
    ),
)
