"""Seed-OSS: Llama with separate settings for the biases of QKV and of the attention output."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan


def _plan(config: Any) -> DecoderPlan:
    layer = LayerPlan(
        attention=attention_of(
            config, has_qkv_bias=bool(config.attention_bias), has_output_bias=bool(config.attention_out_bias)
        ),
        feed_forward=dense_of(config),
    )
    return decoder_of(config, [layer] * config.num_hidden_layers)


FAMILIES: Final = (Family(types=("seed_oss",), plan=_plan),)
