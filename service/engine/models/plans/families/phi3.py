"""Phi-3 and Phi-4: fused qkv and gate_up projections, partial RoPE, and LongRoPE's short factors only."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of, rotary_of, windows_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan
from service.engine.models.plans.rows import STACKED_GATE_UP, key_rows, query_rows, value_rows
from service.engine.models.plans.sources import Source, Tensors


def _plan(config: Any) -> DecoderPlan:
    layers = [
        LayerPlan(attention=attention_of(config, window=window), feed_forward=dense_of(config))
        for window in windows_of(config)
    ]
    return decoder_of(config, layers, rotary=(rotary_of(config, is_partial=True),))


_QKV: Final = "self_attn.qkv_proj"
_MODULES: Final = {
    "self_attn.q_proj": Source(_QKV, rows=query_rows),
    "self_attn.k_proj": Source(_QKV, rows=key_rows),
    "self_attn.v_proj": Source(_QKV, rows=value_rows),
    **STACKED_GATE_UP,
}

FAMILIES: Final = (Family(types=("phi3",), plan=_plan, tensors=Tensors(modules=_MODULES)),)
