"""Shapes of published models with recurrent layers, and folders of them with random weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from transformers import FalconMambaConfig, GraniteMoeHybridConfig, Lfm2Config, PretrainedConfig
from transformers.models.qwen3_5 import Qwen3_5TextConfig

from bench import shapes


def _ends(vocab_size: int) -> dict[str, Any]:
    """Return special tokens that greedy decoding of random weights is unlikely to generate."""
    return {"bos_token_id": None, "eos_token_id": vocab_size - 1, "pad_token_id": vocab_size - 2}


def _lfm2(*, hidden: int, inner: int, heads: int) -> Lfm2Config:
    attention = {2, 5, 8, 10, 12, 14}
    return Lfm2Config(
        vocab_size=65_536,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=16,
        num_attention_heads=heads,
        num_key_value_heads=8,
        layer_types=["full_attention" if i in attention else "conv" for i in range(16)],
        **_ends(65_536),
    )


def _qwen3_5() -> PretrainedConfig:
    return Qwen3_5TextConfig(
        vocab_size=248_320,
        hidden_size=1024,
        intermediate_size=3_584,
        num_hidden_layers=24,
        num_attention_heads=8,
        num_key_value_heads=2,
        linear_num_key_heads=16,
        linear_num_value_heads=16,
        tie_word_embeddings=True,
        **_ends(248_320),
    )


def _granite() -> PretrainedConfig:
    return GraniteMoeHybridConfig(
        vocab_size=100_352,
        hidden_size=768,
        intermediate_size=2_048,
        num_hidden_layers=32,
        num_attention_heads=12,
        num_key_value_heads=4,
        num_local_experts=0,
        num_experts_per_tok=0,
        shared_intermediate_size=2_048,
        position_embedding_type="nope",
        layer_types=["attention" if i in {10, 13, 17, 27} else "mamba" for i in range(32)],
        mamba_n_heads=48,
        mamba_d_head=32,
        mamba_d_state=128,
        mamba_expand=2,
        tie_word_embeddings=True,
        **_ends(100_352),
    )


def _falcon_mamba() -> PretrainedConfig:
    """Return Falcon-Mamba 7B's shape, cut to 12 of its 64 layers."""
    return FalconMambaConfig(
        vocab_size=65_024, hidden_size=4096, num_hidden_layers=12, tie_word_embeddings=True, **_ends(65_024)
    )


RECURRENT_CONFIGS: Final[dict[str, Callable[[], PretrainedConfig]]] = {
    "lfm2-350m": lambda: _lfm2(hidden=1024, inner=6_656, heads=16),
    "lfm2-1.2b": lambda: _lfm2(hidden=2048, inner=12_288, heads=32),
    "qwen3.5-0.8b": _qwen3_5,
    "granite-4-h-350m": _granite,
    "falcon-mamba-12-layers": _falcon_mamba,
}


def recurrent_folder(name: str) -> Path:
    """Return a folder with random bf16 weights of a shape."""
    return shapes.random_weights(f"{name}-random", RECURRENT_CONFIGS[name]())
