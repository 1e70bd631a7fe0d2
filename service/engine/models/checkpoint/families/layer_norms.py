"""The config.json defaults of model types with LayerNorm and without experts."""

from __future__ import annotations

from typing import Final

from service.engine.models.checkpoint.families.dense import LLAMA
from service.engine.models.checkpoint.families.family_defaults import (
    STATED,
    FamilyDefaults,
    Fields,
    every_nth_is_full,
)

_COHERE: Final = {
    "num_key_value_heads": None,
    "hidden_act": "silu",
    "layer_norm_eps": 1e-5,
    "logit_scale": 0.0625,
    "tie_word_embeddings": True,
    "attention_bias": False,
    "eos_token_id": 255_001,
}
_PERSIMMON: Final = {
    "hidden_act": "relu2",
    "layer_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "qk_layernorm": True,
    "eos_token_id": 2,
}


def _falcon(fields: Fields) -> None:
    if fields["num_kv_heads"] is None:
        fields["num_kv_heads"] = fields["num_attention_heads"]
    if fields["ffn_hidden_size"] is None:
        fields["ffn_hidden_size"] = 4 * fields["hidden_size"]


LAYER_NORMS: Final = {
    "cohere": FamilyDefaults(fields=_COHERE | {"use_qk_norm": False}, rope_theta=500_000.0),
    "cohere2": FamilyDefaults(
        fields=_COHERE | {"layer_types": None, "sliding_window": 4096},
        complete=every_nth_is_full(4, "sliding_window_pattern"),
    ),
    "falcon": FamilyDefaults(
        fields={
            "activation": "gelu",
            "alibi": False,
            "bias": False,
            "eos_token_id": 11,
            "ffn_hidden_size": None,
            "layer_norm_epsilon": 1e-5,
            "multi_query": True,
            "new_decoder_architecture": False,
            "num_kv_heads": None,
            "num_ln_in_parallel_attn": None,
            "parallel_attn": True,
            "tie_word_embeddings": True,
        },
        complete=_falcon,
        stated=tuple(name for name in STATED if name != "intermediate_size"),
    ),
    "gpt_neox": FamilyDefaults(
        fields={
            "attention_bias": True,
            "eos_token_id": 2,
            "hidden_act": "gelu",
            "layer_norm_eps": 1e-5,
            "tie_word_embeddings": False,
            "use_parallel_residual": True,
        },
        rotated_share=0.25,
        theta_name="rotary_emb_base",
        share_name="rotary_pct",
    ),
    "jais2": FamilyDefaults(
        fields={
            "num_key_value_heads": None,
            "head_dim": None,
            "hidden_act": "relu2",
            "layer_norm_eps": 1e-5,
            "tie_word_embeddings": False,
            "attention_bias": True,
            "mlp_bias": True,
            "eos_token_id": 150_024,
        }
    ),
    "nemotron": FamilyDefaults(
        fields={
            "num_key_value_heads": None,
            "head_dim": None,
            "hidden_act": "relu2",
            "norm_eps": 1e-5,
            "tie_word_embeddings": False,
            "attention_bias": False,
            "mlp_bias": False,
            "eos_token_id": 3,
        },
        rotated_share=0.5,
    ),
    "olmo": FamilyDefaults(
        fields={name: value for name, value in LLAMA.items() if name != "rms_norm_eps"}
        | {"clip_qkv": None, "eos_token_id": 50_279}
    ),
    "persimmon": FamilyDefaults(fields=_PERSIMMON, rotated_share=0.5),
    "phi": FamilyDefaults(
        fields=_PERSIMMON | {"num_key_value_heads": None, "hidden_act": "gelu_new", "qk_layernorm": False},
        rotated_share=0.5,
    ),
    "stablelm": FamilyDefaults(
        fields={
            "num_key_value_heads": 32,
            "hidden_act": "silu",
            "layer_norm_eps": 1e-5,
            "tie_word_embeddings": False,
            "qk_layernorm": False,
            "use_parallel_residual": False,
            "use_qkv_bias": False,
            "eos_token_id": 0,
        },
        rotated_share=0.25,
    ),
    "starcoder2": FamilyDefaults(
        fields={
            "num_key_value_heads": 2,
            "hidden_act": "gelu_pytorch_tanh",
            "norm_epsilon": 1e-5,
            "tie_word_embeddings": True,
            "use_bias": True,
            "sliding_window": None,
            "eos_token_id": 50_256,
        }
    ),
}
