"""Falcon-H1: attention and Mamba-2 in parallel in each layer, with multipliers."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.families.recurrent.mamba2 import FEED_FORWARD, mamba2_of, recurrent_sources
from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of, require
from service.engine.models.plans.plan import DecoderPlan, LayerPlan
from service.engine.models.plans.sources import Tensors

_COLUMNS: Final = ("gate", "value", "key", "query", "step")  # of the projection, in the order of ssm_multipliers


def _plan(config: Any) -> DecoderPlan:
    require(config, "hidden_act", "silu")
    require(config, "mamba_proj_bias", False)
    has_bias, input_multiplier = bool(config.attention_bias), float(config.attention_in_multiplier)
    if has_bias:
        require(config, "attention_in_multiplier", 1.0, 1)
        require(config, "key_multiplier", 1.0, 1)
    scale = attention_of(config).scale * input_multiplier * input_multiplier * float(config.key_multiplier)
    gate_norm = "none"
    if config.mamba_rms_norm:
        gate_norm = "norm_first" if config.mamba_norm_before_gate else "gate_first"
    columns = zip(_COLUMNS, config.ssm_multipliers, strict=True)
    gate_multiplier, down_multiplier = config.mlp_multipliers
    layer = LayerPlan(
        attention=attention_of(
            config,
            scale=scale,
            has_qkv_bias=has_bias,
            has_output_bias=has_bias,
            output_multiplier=input_multiplier * float(config.attention_out_multiplier),
        ),
        recurrent=mamba2_of(
            config,
            gate_norm=gate_norm,
            has_output_bias=bool(config.projectors_bias),
            output_multiplier=float(config.ssm_out_multiplier),
            **{f"{name}_multiplier": float(config.ssm_in_multiplier * factor) for name, factor in columns},
        ),
        feed_forward=dense_of(config, gate_multiplier=float(gate_multiplier), output_multiplier=float(down_multiplier)),
    )
    return decoder_of(
        config,
        [layer] * config.num_hidden_layers,
        embedding_multiplier=float(config.embedding_multiplier),
        logit_multiplier=float(config.lm_head_multiplier),
    )


_MODULES: Final = recurrent_sources("mamba") | FEED_FORWARD
FAMILIES: Final = (Family(types=("falcon_h1",), plan=_plan, tensors=Tensors(modules=_MODULES)),)
