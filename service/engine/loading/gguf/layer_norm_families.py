"""The config.json fields of GGUF families with LayerNorm."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from service.engine.loading.gguf.metadata import GgufMetadata, head_dim_of
from service.engine.loading.gguf.rotary import rotated_share
from service.engine.loading.gguf.windows import windows
from service.generation.errors import ModelLoadError

Fields: TypeAlias = dict[str, Any]

_EPSILON: Final = "attention.layer_norm_epsilon"
_QUERY_BIAS: Final = "blk.*.attn_q.bias"
_UP_BIAS: Final = "blk.*.ffn_up.bias"
_OLMO_EPSILON: Final = 1e-5  # no other one is known


def _part(metadata: GgufMetadata) -> Fields:
    return {"partial_rotary_factor": rotated_share(metadata, head_dim_of(metadata))}


def _norm(metadata: GgufMetadata) -> Fields:
    return {"layer_norm_eps": metadata.number(_EPSILON)}


def _bias(metadata: GgufMetadata) -> Fields:
    return {"attention_bias": metadata.has(_QUERY_BIAS), "mlp_bias": metadata.has(_UP_BIAS)}


def cohere(metadata: GgufMetadata) -> Fields:
    """Return the fields of Command R."""
    return _norm(metadata) | {
        "logit_scale": metadata.number("logit_scale"),
        "attention_bias": metadata.has(_QUERY_BIAS),
        "use_qk_norm": metadata.has("blk.*.attn_q_norm.weight"),
    }


def cohere2(metadata: GgufMetadata) -> Fields:
    """Return the fields of Command R7B and later."""
    return _norm(metadata) | {"logit_scale": metadata.number("logit_scale"), **windows(metadata, 4)}


def falcon(metadata: GgufMetadata) -> Fields:
    """Return the fields of Falcon. Files have no number of heads for models with one head of keys."""
    num_kv_heads = metadata.size("attention.head_count_kv", 1)
    has_both_norms = metadata.has("blk.*.attn_norm_2.weight")
    is_new = has_both_norms or num_kv_heads > 1
    return {
        "layer_norm_epsilon": metadata.number(_EPSILON),
        "activation": "gelu",
        "ffn_hidden_size": metadata.size("feed_forward_length"),
        "bias": metadata.has(_QUERY_BIAS),
        "alibi": False,
        "parallel_attn": True,
        "multi_query": True,
        "new_decoder_architecture": is_new,
        "num_kv_heads": num_kv_heads,
        "num_ln_in_parallel_attn": (2 if has_both_norms else 1) if is_new else None,
    }


def gpt_neox(metadata: GgufMetadata) -> Fields:
    """Return the fields of GPT-NeoX."""
    return (
        _part(metadata)
        | _norm(metadata)
        | {
            "hidden_act": "gelu",
            "use_parallel_residual": bool(metadata.own("use_parallel_residual", True)),
            "attention_bias": metadata.has(_QUERY_BIAS),
        }
    )


def jais2(metadata: GgufMetadata) -> Fields:
    """Return the fields of Jais 2."""
    return _bias(metadata) | _norm(metadata) | {"hidden_act": "relu2"}


def nemotron(metadata: GgufMetadata) -> Fields:
    """Return the fields of Nemotron."""
    return _bias(metadata) | _part(metadata) | {"norm_eps": metadata.number(_EPSILON), "hidden_act": "relu2"}


def olmo(metadata: GgufMetadata) -> Fields:
    """Return the fields of OLMo, whose norms have no weights."""
    epsilon = metadata.number(_EPSILON)
    if abs(epsilon - _OLMO_EPSILON) > 1e-3 * _OLMO_EPSILON:  # files have numbers of 32 bits
        raise ModelLoadError(f"{metadata.file}: {metadata.kind}.{_EPSILON} must be {_OLMO_EPSILON}")
    limit = metadata.own("attention.clamp_kqv", None)
    return {
        "layer_norm_eps": epsilon,
        "clip_qkv": metadata.number("attention.clamp_kqv") if limit else None,
        "attention_bias": metadata.has(_QUERY_BIAS),
    }


def phi2(metadata: GgufMetadata) -> Fields:
    """Return the fields of Phi-2."""
    return _part(metadata) | _norm(metadata) | {"hidden_act": "gelu_new"}


def stablelm(metadata: GgufMetadata) -> Fields:
    """Return the fields of StableLM."""
    return (
        _part(metadata)
        | _norm(metadata)
        | {
            "use_parallel_residual": bool(metadata.own("use_parallel_residual", False)),
            "use_qkv_bias": metadata.has(_QUERY_BIAS),
            "qk_layernorm": metadata.has("blk.*.attn_q_norm.weight"),
        }
    )


def starcoder2(metadata: GgufMetadata) -> Fields:
    """Return the fields of StarCoder2."""
    return {
        "norm_epsilon": metadata.number(_EPSILON),
        "hidden_act": "gelu_pytorch_tanh",
        "use_bias": metadata.has(_QUERY_BIAS),
        "sliding_window": None,
    }
