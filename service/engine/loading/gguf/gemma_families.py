"""The config.json fields of Gemma's GGUF files."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, Final, TypeAlias

from service.engine.loading.gguf.metadata import GgufMetadata, head_dim_of
from service.engine.loading.gguf.windows import kinds, windows
from service.engine.models.checkpoint.gguf.names import FACTORS
from service.generation.errors import ModelLoadError

Fields: TypeAlias = dict[str, Any]

_LARGEST_GEMMA2, _LARGEST_GEMMA3 = 46, 62  # layers of the models whose queries have another scale
_FULL: Final = "full_attention"
_SPARSITY: Final = "activation_sparsity_scale"  # a layer's cutoff in deviations of its gates; -inf for a dense layer
_DIGITS: Final = 6  # of a share of gates, which the file has as a cutoff of 32 bits


def gelu(_: GgufMetadata) -> Fields:
    """Return the fields of Gemma."""
    return {"hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh"}


def _query_scalar(metadata: GgufMetadata, largest: int) -> int:
    """Return the number whose root divides the scores: the width of a head, but not in the largest model."""
    if metadata.size("block_count") == largest:
        return metadata.size("embedding_length") // metadata.size("attention.head_count")
    return head_dim_of(metadata)


def gemma2(metadata: GgufMetadata) -> Fields:
    """Return the fields of Gemma 2."""
    return gelu(metadata) | {
        "query_pre_attn_scalar": _query_scalar(metadata, _LARGEST_GEMMA2),
        "sliding_window": metadata.size("attention.sliding_window", 4096),
        "layer_types": kinds(metadata, 2),
        "attn_logit_softcapping": metadata.number("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": metadata.number("final_logit_softcapping", 30.0),
    }


def gemma3(metadata: GgufMetadata) -> Fields:
    """Return the fields of Gemma 3."""
    has_cap = metadata.own("final_logit_softcapping", 0) != 0
    attention = windows(metadata, 6)
    return gelu(metadata) | {
        "query_pre_attn_scalar": _query_scalar(metadata, _LARGEST_GEMMA3),
        "rope_local_base_freq": metadata.number("rope.freq_base_swa", 10_000.0),
        "attn_logit_softcapping": None,
        "final_logit_softcapping": metadata.number("final_logit_softcapping") if has_cap else None,
        **attention,
        "sliding_window": attention["sliding_window"] or 1,  # the field must be a number
    }


def gemma_embedding(metadata: GgufMetadata) -> Fields:
    """Return the fields of EmbeddingGemma, whose windows cover tokens before and after."""
    return gemma3(metadata) | {"use_bidirectional_attention": True}


def _shared(metadata: GgufMetadata, cap: float) -> Fields:
    """Return the fields that Gemma 3n and 4 have in common. `cap` is the limit of logits of files without one."""
    if metadata.layers("attention.sliding_window_pattern") is None:
        raise ModelLoadError(
            f"{metadata.file}: {metadata.kind}.attention.sliding_window_pattern must be a list of layers"
        )
    width = metadata.count("embedding_length_per_layer_input", 0)
    has_cap = metadata.own("final_logit_softcapping", cap) != 0
    return {
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_bias": False,
        "sliding_window": metadata.size("attention.sliding_window"),
        "layer_types": kinds(metadata, 1),
        "num_kv_shared_layers": metadata.count("attention.shared_kv_layers", 0),
        "hidden_size_per_layer_input": width,
        "vocab_size_per_layer_input": metadata.height("per_layer_token_embd.weight") if width else metadata.vocab_size,
        "final_logit_softcapping": metadata.number("final_logit_softcapping", cap) if has_cap else None,
    }


def gemma3n(metadata: GgufMetadata) -> Fields:
    """Return the fields of Gemma 3n."""
    cutoffs = metadata.layer_numbers(_SPARSITY, -math.inf)
    default = NormalDist()
    return _shared(metadata, 30.0) | {
        "intermediate_size": metadata.each_layer("feed_forward_length"),
        "activation_sparsity_pattern": [round(default.cdf(each), _DIGITS) for each in cutoffs],
        "altup_active_idx": metadata.count("altup.active_idx", 0),
        "altup_num_inputs": metadata.size("altup.num_inputs"),
        "altup_correct_scale": metadata.has("blk.*.altup_correct_scale.weight"),
        "laurel_rank": metadata.width("blk.*.laurel_r.weight"),
        "rope_local_base_freq": metadata.number("rope.freq_base_swa", 10_000.0),
    }


def gemma4(metadata: GgufMetadata) -> Fields:
    """Return the fields of Gemma 4. Its layers without a window have heads of another size."""
    fields = _shared(metadata, 0.0)
    is_full = [kind == _FULL for kind in fields["layer_types"]]
    widths = metadata.each_layer("feed_forward_length")
    num_kv_heads = metadata.each_layer("attention.head_count_kv")
    of_full = {count for count, full in zip(num_kv_heads, is_full, strict=True) if full}
    of_others = {count for count, full in zip(num_kv_heads, is_full, strict=True) if not full}
    if len(of_full) != 1 or len(of_others) != 1:
        raise ModelLoadError(
            f"{metadata.file}: {metadata.kind}.attention.head_count_kv must be the same in all layers of a kind"
        )
    if metadata.own("rope.dimension_count_swa", metadata.own("attention.key_length_swa")) != metadata.own(
        "attention.key_length_swa"
    ):
        raise ModelLoadError(f"{metadata.file}: {metadata.kind}.rope.dimension_count_swa must be a head's width")
    first_full = is_full.index(True)
    return (
        fields
        | _experts(metadata)
        | {
            "intermediate_size": min(widths),
            "use_double_wide_mlp": min(widths) != max(widths),
            "num_key_value_heads": of_others.pop(),
            "num_global_key_value_heads": of_full.pop(),
            "head_dim": metadata.size("attention.key_length_swa"),
            "global_head_dim": head_dim_of(metadata),
            "attention_k_eq_v": not metadata.has(f"blk.{first_full}.attn_v.weight"),
            "rope_parameters": {
                "full_attention": {
                    "rope_type": "proportional",
                    "rope_theta": metadata.number("rope.freq_base", 1_000_000.0),
                    "partial_rotary_factor": _rotated_share(metadata),
                },
                "sliding_attention": {
                    "rope_type": "default",
                    "rope_theta": metadata.number("rope.freq_base_swa", 10_000.0),
                },
            },
        }
    )


def _experts(metadata: GgufMetadata) -> Fields:
    """Return the fields of experts in addition to a dense feed-forward part."""
    if not metadata.has("blk.*.ffn_gate_inp.weight"):
        return {"enable_moe_block": False}
    return {
        "enable_moe_block": True,
        "num_experts": metadata.size("expert_count"),
        "top_k_experts": metadata.size("expert_used_count"),
        "moe_intermediate_size": metadata.size("expert_feed_forward_length"),
    }


def _rotated_share(metadata: GgufMetadata) -> float:
    """Return the share of a head that full layers rotate: the file divides the frequencies of the others by 1e30."""
    factors = metadata.numbers(FACTORS)
    if factors is None:
        return 1.0
    num_rotated = int((factors == 1).sum())
    if not num_rotated or (factors[:num_rotated] != 1).any() or (factors[num_rotated:] < 1e29).any():
        raise ModelLoadError(f"{metadata.file}: {FACTORS} must be 1 for rotated parts and 1e30 for the others")
    return num_rotated / len(factors)
