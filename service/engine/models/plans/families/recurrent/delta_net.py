"""Qwen3-Next and Qwen3.5: gated DeltaNet in most layers, gated attention in the others."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from service.engine.models.plans.expert_sources import FUSED, ExpertTensors
from service.engine.models.plans.families.experts.layers import experts_of, sparse_by_step, sparse_everywhere
from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of, require, rotary_of
from service.engine.models.plans.plan import (
    DecoderPlan,
    DensePlan,
    ExpertsPlan,
    LayerPlan,
    PlanUnsupportedError,
    RecurrentPlan,
)
from service.engine.models.plans.sources import RowsOf, Source, Tensors


def _decoder(config: Any, feed_forward: list[DensePlan | ExpertsPlan]) -> DecoderPlan:
    require(config, "hidden_act", "silu")
    has_bias = bool(config.attention_bias)
    attention = attention_of(config, head_norm="head", has_gate=True, has_qkv_bias=has_bias, has_output_bias=has_bias)
    delta_net = RecurrentPlan(
        kind="delta_net",
        num_heads=config.linear_num_value_heads,
        num_key_heads=config.linear_num_key_heads,
        key_dim=config.linear_key_head_dim,
        value_dim=config.linear_value_head_dim,
        taps=config.linear_conv_kernel_dim,
        gate_norm="norm_first",
        norm_size=config.linear_value_head_dim,
    )
    mixers: dict[str, Any] = {
        "full_attention": {"attention": attention},
        "linear_attention": {"recurrent": delta_net},
    }
    for kind in config.layer_types:
        if kind not in mixers:
            raise PlanUnsupportedError(f"layer_types has {kind!r}")
    layers = [
        LayerPlan(feed_forward=each, **mixers[kind])
        for kind, each in zip(config.layer_types, feed_forward, strict=True)
    ]
    return decoder_of(config, layers, rotary=(rotary_of(config, is_partial=True),))


def _experts(config: Any, *, is_renormalized: bool) -> ExpertsPlan:
    return experts_of(
        config,
        width=config.moe_intermediate_size,
        is_renormalized=is_renormalized,
        shared_width=config.shared_expert_intermediate_size,
        has_shared_gate=True,
    )


def _qwen3_next(config: Any) -> DecoderPlan:
    if not config.num_experts:
        return _decoder(config, [dense_of(config)] * config.num_hidden_layers)
    experts = _experts(config, is_renormalized=bool(config.norm_topk_prob))
    is_sparse = sparse_by_step(config)
    dense = None if all(is_sparse) else dense_of(config)
    return _decoder(config, [experts if sparse or dense is None else dense for sparse in is_sparse])


def _qwen3_5(config: Any) -> DecoderPlan:
    return _decoder(config, [dense_of(config)] * config.num_hidden_layers)


def _qwen3_5_moe(config: Any) -> DecoderPlan:
    experts = _experts(config, is_renormalized=True)
    return _decoder(config, [experts for _ in sparse_everywhere(config)])


def _query_or_gate_rows(index: int) -> RowsOf:
    """Return the queries' rows (0) or the gates' rows (1) of a module that stacks both for each head."""

    def rows(_: DecoderPlan, layer: LayerPlan) -> NDArray[np.intp]:
        heads = layer.heads
        whole = np.arange(2 * heads.num_heads * heads.head_dim)
        return whole.reshape(heads.num_heads, 2, heads.head_dim)[:, index].reshape(-1)

    return rows


def _stacked_rows(*parts: str) -> RowsOf:
    """Return the rows of some parts of a module that stacks, for each key head, all of its parts."""

    def rows(_: DecoderPlan, layer: LayerPlan) -> NDArray[np.intp]:
        plan = layer.mixer
        each = plan.num_heads // plan.num_key_heads
        values = each * plan.value_dim
        widths = {"query": plan.key_dim, "key": plan.key_dim, "value": values, "gate": values}
        if parts[0] in {"beta", "decay"}:
            widths = {"beta": each, "decay": each}
        starts = dict(zip(widths, np.cumsum([0, *widths.values()]).tolist(), strict=False))
        whole = np.arange(plan.num_key_heads * sum(widths.values())).reshape(plan.num_key_heads, -1)
        chosen = [whole[:, starts[part] : starts[part] + widths[part]].reshape(-1) for part in parts]
        return np.concatenate(chosen)

    return rows


_NORMS: Final = {
    name: Source(name, added=1.0)
    for name in ("model.norm", "input_layernorm", "post_attention_layernorm", "self_attn.q_norm", "self_attn.k_norm")
}
_COMMON: Final = _NORMS | {
    "self_attn.q_proj": Source("self_attn.q_proj", rows=_query_or_gate_rows(0)),
    "self_attn.gate_proj": Source("self_attn.q_proj", rows=_query_or_gate_rows(1)),
    "recurrent.out_proj": Source("linear_attn.out_proj"),
    "recurrent.convolution": Source("linear_attn.conv1d", is_convolution=True),
    "recurrent.decay": Source("linear_attn.A_log"),
    "recurrent.step_bias": Source("linear_attn.dt_bias"),
    "recurrent.norm": Source("linear_attn.norm"),
}
_QWEN3_NEXT: Final = _COMMON | {
    "recurrent.qkv_proj": Source("linear_attn.in_proj_qkvz", rows=_stacked_rows("query", "key", "value")),
    "recurrent.gate_proj": Source("linear_attn.in_proj_qkvz", rows=_stacked_rows("gate")),
    "recurrent.beta_proj": Source("linear_attn.in_proj_ba", rows=_stacked_rows("beta")),
    "recurrent.decay_proj": Source("linear_attn.in_proj_ba", rows=_stacked_rows("decay")),
}
_QWEN3_5: Final = _COMMON | {
    "recurrent.qkv_proj": Source("linear_attn.in_proj_qkv"),
    "recurrent.gate_proj": Source("linear_attn.in_proj_z"),
    "recurrent.beta_proj": Source("linear_attn.in_proj_b"),
    "recurrent.decay_proj": Source("linear_attn.in_proj_a"),
}
# GGUF files of Qwen3-Next have queries, keys and values apart from gates.
_QWEN3_NEXT_APART: Final = _QWEN3_NEXT | {
    name: _QWEN3_5[name] for name in ("recurrent.qkv_proj", "recurrent.gate_proj")
}
_PREDICTORS: Final = ("mtp.", "model.layers.{}.")  # of checkpoints, and of GGUF files


def _tensors(modules: dict[str, Source], experts: ExpertTensors, sign: str = "") -> Tensors:
    return Tensors(modules=modules, experts=experts, sign=sign, predictors=_PREDICTORS)


_APART: Final = _tensors(_QWEN3_NEXT_APART, ExpertTensors(), sign="model.layers.0.linear_attn.in_proj_qkv.weight")
FAMILIES: Final = (
    Family(
        types=("qwen3_next",),
        plan=_qwen3_next,
        tensors=_tensors(_QWEN3_NEXT, ExpertTensors()),
        alternatives=(_APART, _tensors(_QWEN3_NEXT, FUSED)),
    ),
    Family(types=("qwen3_5_text",), plan=_qwen3_5, tensors=Tensors(modules=_QWEN3_5, predictors=_PREDICTORS)),
    Family(
        types=("qwen3_5_moe_text",),
        plan=_qwen3_5_moe,
        tensors=_tensors(_QWEN3_5, ExpertTensors()),
        alternatives=(_tensors(_QWEN3_5, FUSED),),
    ),
)
