"""EXAONE 4: QK norm and post-norms. In models with sliding windows, full-attention layers have no RoPE."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.families.olmo import OUTPUT_NORMS
from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of, windows_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan
from service.engine.models.plans.sources import Tensors


def _plan(config: Any) -> DecoderPlan:
    layers = [
        LayerPlan(
            attention=attention_of(
                config, window=window, rotary=0 if window or not config.sliding_window else -1, head_norm="head"
            ),
            feed_forward=dense_of(config, has_bias=False),
            has_attention_norm=False,
            has_attention_output_norm=True,
            has_mlp_norm=False,
            has_mlp_output_norm=True,
        )
        for window in windows_of(config)
    ]
    return decoder_of(config, layers)


FAMILIES: Final = (Family(types=("exaone4",), plan=_plan, tensors=Tensors(modules=OUTPUT_NORMS)),)
