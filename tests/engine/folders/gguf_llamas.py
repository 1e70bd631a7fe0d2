"""Architectures of GGUF files whose models are Llama's or Granite's in transformers."""

from __future__ import annotations

from typing import Any

from gguf import MODEL_ARCH

from tests.engine.folders import gguf_metadata as metadata
from tests.engine.folders.gguf_writer import GgufFamily

_MULTIPLIERS = ("embedding_multiplier", "residual_multiplier", "logits_scaling")
_SMALL: dict[str, Any] = {"attention_multiplier": 0.25}  # of the width of a head, 16
_MINICPM = _SMALL | {"embedding_multiplier": 3.0, "residual_multiplier": 0.6, "logits_scaling": 0.5}
_OLD_MINICPM = _SMALL | {"embedding_multiplier": 12.0, "residual_multiplier": 0.7, "logits_scaling": 0.25}
_LONG: dict[str, Any] = {
    "rope_theta": 10_000.0,
    "rope_type": "longrope",
    "short_factor": [1.0 + index / 10 for index in range(8)],
    "long_factor": [1.0 + index for index in range(8)],
    # llama.cpp has the long factors for all positions if its context is longer than this, also for short texts.
    "original_max_position_embeddings": 2048,
}
LLAMAS = {
    "llama, of EXAONE 3": GgufFamily(arch=MODEL_ARCH.EXAONE, options={"tie_word_embeddings": True}),
    "llama, of InternLM2": GgufFamily(arch=MODEL_ARCH.INTERNLM2, permutes=True, options={"tie_word_embeddings": False}),
    "llama, of XVERSE": GgufFamily(arch=MODEL_ARCH.XVERSE, permutes=True, options={"num_key_value_heads": 4}),
    "llama, of Baichuan": GgufFamily(
        arch=MODEL_ARCH.BAICHUAN, permutes=True, options={"num_key_value_heads": 4, "num_hidden_layers": 32}
    ),
    "llama, of Pangu Embedded": GgufFamily(arch=MODEL_ARCH.PANGU_EMBED, options={"attention_bias": True}),
    "granite, of MiniCPM": GgufFamily(arch=MODEL_ARCH.MINICPM, permutes=True, keys=_MULTIPLIERS, options=_MINICPM),
    "granite, of an old MiniCPM": GgufFamily(arch=MODEL_ARCH.MINICPM, permutes=True, options=_OLD_MINICPM),
    "granite, of a long MiniCPM": GgufFamily(
        arch=MODEL_ARCH.MINICPM,
        permutes=True,
        keys=_MULTIPLIERS,
        more=metadata.minicpm,
        options=_MINICPM | {"rope_parameters": _LONG, "max_position_embeddings": 2048},
    ),
}
