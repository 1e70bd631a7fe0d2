"""Llama, Mistral, and decoders whose configurations and checkpoints are like theirs."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.plans.family import Family, attention_of, decoder_of, dense_of, windows_of
from service.engine.models.plans.plan import DecoderPlan, LayerPlan


def _decoder(config: Any, windows: list[int]) -> DecoderPlan:
    has_bias = bool(getattr(config, "attention_bias", False))
    layers = [
        LayerPlan(
            attention=attention_of(config, window=window, has_qkv_bias=has_bias, has_output_bias=has_bias),
            feed_forward=dense_of(config),
        )
        for window in windows
    ]
    return decoder_of(config, layers)


def _llama(config: Any) -> DecoderPlan:
    return _decoder(config, [0] * config.num_hidden_layers)


def _mistral(config: Any) -> DecoderPlan:
    return _decoder(config, windows_of(config))


FAMILIES: Final = (
    Family(types=("llama", "internlm3", "iquestcoder"), plan=_llama),
    Family(types=("mistral", "ministral", "cwm"), plan=_mistral),
)
