"""StableLM: LayerNorm, partial RoPE, and optionally attention and MLP in parallel behind one norm."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of, require, rotary_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan


def _plan(config: Any) -> DecoderPlan:
    require(config, "qk_layernorm", False)
    is_parallel = bool(config.use_parallel_residual)
    layer = LayerPlan(
        attention=attention_of(config, has_qkv_bias=bool(config.use_qkv_bias)),
        feed_forward=dense_of(config, has_bias=False),
        has_mlp_norm=not is_parallel,
        is_parallel=is_parallel,
    )
    return decoder_of(
        config,
        [layer] * config.num_hidden_layers,
        norm_kind="layer",
        norm_epsilon=config.layer_norm_eps,
        has_norm_bias=True,
        rotary=(rotary_of(config, is_partial=True),),
    )


FAMILIES: Final = (Family(types=("stablelm",), plan=_plan),)
