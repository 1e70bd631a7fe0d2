"""The sizes of a Llama-like decoder, and the check of whether the fused decoder supports a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_SERVED_TYPES = ("llama", "qwen2", "qwen3")
_SERVED_ROPES = {"default", "linear", "llama3", "yarn"}


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """The sizes and options of the fused decoder."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    norm_epsilon: float
    has_qkv_bias: bool
    has_output_bias: bool
    has_mlp_bias: bool
    has_head_norm: bool  # RMS norm of each query and key head
    is_tied: bool  # the output head is the embedding


def decoder_unsupported_reason(config: Any) -> str | None:
    """Return why the fused decoder does not support a configuration, or None if it does."""
    if config.model_type not in _SERVED_TYPES:
        return f"it is none of {', '.join(_SERVED_TYPES)}"
    rope = config.rope_parameters
    reasons = (
        (config.hidden_act != "silu", f"its activation is {config.hidden_act}"),
        (set(getattr(config, "layer_types", None) or ()) - {"full_attention"}, "it has sliding-window layers"),
        (rope.get("rope_type", "default") not in _SERVED_ROPES, f"its rope type is {rope.get('rope_type')}"),
        (rope.get("partial_rotary_factor", 1.0) != 1.0, "its rotary positions are partial"),
    )
    return next((reason for applies, reason in reasons if applies), None)


def decoder_shape(config: Any) -> DecoderShape:
    """Read the sizes of a configuration for which `decoder_unsupported_reason` is None."""
    attention_bias = getattr(config, "attention_bias", False)
    return DecoderShape(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        num_kv_heads=config.num_key_value_heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        norm_epsilon=config.rms_norm_eps,
        has_qkv_bias=attention_bias or config.model_type == "qwen2",
        has_output_bias=attention_bias,
        has_mlp_bias=getattr(config, "mlp_bias", False),
        has_head_norm=config.model_type == "qwen3",
        is_tied=config.tie_word_embeddings,
    )
