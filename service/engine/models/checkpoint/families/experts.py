"""The defaults of types with experts."""

from __future__ import annotations

from typing import Final

from service.engine.models.checkpoint.families.dense import GRANITE, LLAMA, granite_swa
from service.engine.models.checkpoint.families.family_defaults import (
    FamilyDefaults,
    Fields,
    UncommonConfigError,
    every_nth_is_full,
    slides_from,
)

_WITHOUT_BIAS: Final = {name: value for name, value in LLAMA.items() if name != "attention_bias"}
_GRANITE: Final = GRANITE | {"num_local_experts": 8, "num_experts_per_tok": 2}
_GROUPS: Final = {"n_group": 1, "topk_group": 1}
_GPT_OSS_ROPE: Final = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}


def _dots1(fields: Fields) -> None:
    slides_from(fields, fields["max_window_layers"])


def _ernie(fields: Fields) -> None:
    if fields["moe_layer_end_index"] == -1:
        fields["moe_layer_end_index"] = fields["num_hidden_layers"] - 1


def _exaone(fields: Fields) -> None:
    if fields["mlp_layer_types"] is None:
        num_layers, first = fields["num_hidden_layers"], fields["first_k_dense_replace"]
        fields["mlp_layer_types"] = ["dense" if i < first else "sparse" for i in range(num_layers)]
    if fields["layer_types"] is None and fields["sliding_window"] is None:
        raise UncommonConfigError("sliding_window")
    every_nth_is_full(4, "sliding_window_pattern")(fields)


def _qwen2(fields: Fields) -> None:
    if fields["mlp_only_layers"] is None:
        fields["mlp_only_layers"] = []
    slides = fields["use_sliding_window"]
    fields["sliding_window"] = fields["sliding_window"] if slides else 0
    if fields["layer_types"] is None:
        most = fields["max_window_layers"] if slides else 0
        fields["layer_types"] = [
            "sliding_attention" if (i + 1) % 2 and i < most else "full_attention"
            for i in range(fields["num_hidden_layers"])
        ]


def _qwen3(fields: Fields) -> None:
    if fields["mlp_only_layers"] is None:
        fields["mlp_only_layers"] = []
    if not fields["use_sliding_window"]:
        fields["sliding_window"] = None


def _minimax_m2(fields: Fields) -> None:
    if (rotated := fields.get("rotary_dim")) is not None:  # in the first files
        rope = fields["rope_parameters"]
        if rope["partial_rotary_factor"] == 1:
            rope["partial_rotary_factor"] = rotated / fields["head_dim"]


EXPERTS: Final = {
    "dots1": FamilyDefaults(
        fields=LLAMA
        | _GROUPS
        | {
            "num_key_value_heads": 32,
            "eos_token_id": None,
            "layer_types": None,
            "sliding_window": 4096,
            "max_window_layers": 62,
            "first_k_dense_replace": 0,
            "moe_intermediate_size": 1408,
            "n_shared_experts": None,
            "n_routed_experts": None,
            "num_experts_per_tok": None,
            "norm_topk_prob": False,
            "routed_scaling_factor": 1.0,
        },
        aliases={"num_local_experts": "n_routed_experts"},
        complete=_dots1,
    ),
    "ernie4_5_moe": FamilyDefaults(
        fields=_WITHOUT_BIAS
        | {
            "num_key_value_heads": 4,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": True,
            "use_bias": False,
            "moe_intermediate_size": 1536,
            "moe_k": 6,
            "moe_num_experts": 64,
            "moe_num_shared_experts": 2,
            "moe_layer_start_index": 1,
            "moe_layer_end_index": -1,
            "moe_layer_interval": 1,
            "moe_norm_min": 1e-12,
        },
        aliases={"num_experts": "moe_num_experts", "num_experts_per_tok": "moe_k"},
        complete=_ernie,
        rope_theta=500_000.0,
    ),
    "exaone_moe": FamilyDefaults(
        fields=_WITHOUT_BIAS
        | _GROUPS
        | {
            "num_key_value_heads": 32,
            "rms_norm_eps": 1e-5,
            "eos_token_id": 53,
            "layer_types": None,
            "sliding_window": 4096,
            "mlp_layer_types": None,
            "first_k_dense_replace": 1,
            "moe_intermediate_size": 1024,
            "norm_topk_prob": True,
            "num_experts": 64,
            "num_experts_per_tok": 8,
            "num_shared_experts": 1,
            "routed_scaling_factor": 2.5,
        },
        complete=_exaone,
    ),
    "flex_olmo": FamilyDefaults(
        fields=LLAMA | {"eos_token_id": 100_257, "norm_topk_prob": False, "num_experts": 7, "num_experts_per_tok": 5},
        aliases={"num_local_experts": "num_experts"},
        rope_theta=500_000.0,
    ),
    "glm4_moe": FamilyDefaults(
        fields=LLAMA
        | _GROUPS
        | {
            "num_key_value_heads": 8,
            "rms_norm_eps": 1e-5,
            "eos_token_id": None,
            "first_k_dense_replace": 1,
            "moe_intermediate_size": 1408,
            "n_routed_experts": 128,
            "n_shared_experts": 1,
            "norm_topk_prob": True,
            "num_experts_per_tok": 8,
            "routed_scaling_factor": 1.0,
            "use_qk_norm": False,
        },
        aliases={"num_local_experts": "n_routed_experts"},
        rotated_share=0.5,
    ),
    "gpt_oss": FamilyDefaults(
        fields=LLAMA
        | {
            "head_dim": 64,
            "num_key_value_heads": 8,
            "rms_norm_eps": 1e-5,
            "attention_bias": True,
            "eos_token_id": None,
            "layer_types": None,
            "sliding_window": 128,
            "num_local_experts": 128,
            "num_experts_per_tok": 4,
            "swiglu_alpha": 1.702,
            "swiglu_limit": 7.0,
        },
        aliases={"num_experts": "num_local_experts"},
        complete=every_nth_is_full(2),
        rope_theta=150_000.0,
        rope=_GPT_OSS_ROPE,
    ),
    "granitemoe": FamilyDefaults(fields=_GRANITE),
    "granitemoe_swa": FamilyDefaults(
        fields=_GRANITE
        | {
            "shared_intermediate_size": 0,
            "layer_rope_theta": None,
            "layer_types": None,
            "sliding_window": 128,
        },
        complete=granite_swa,
    ),
    "granitemoeshared": FamilyDefaults(fields=_GRANITE | {"shared_intermediate_size": 0}),
    "hunyuan_v1_moe": FamilyDefaults(
        fields=LLAMA | {"head_dim": None, "rms_norm_eps": 1e-5, "num_experts": 1, "moe_topk": 1},
        aliases={"num_local_experts": "num_experts", "num_experts_per_tok": "moe_topk"},
    ),
    "minimax_m2": FamilyDefaults(
        fields=_WITHOUT_BIAS
        | {
            "head_dim": 128,
            "num_key_value_heads": 8,
            "eos_token_id": 200_020,
            "num_local_experts": 256,
            "num_experts_per_tok": 8,
        },
        aliases={"num_experts": "num_local_experts"},
        complete=_minimax_m2,
        rope_theta=5_000_000.0,
        rotated_share=1.0,
    ),
    "mixtral": FamilyDefaults(
        fields=_WITHOUT_BIAS
        | {
            "head_dim": None,
            "num_key_value_heads": 8,
            "rms_norm_eps": 1e-5,
            "sliding_window": None,
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
        },
        aliases={"num_experts": "num_local_experts"},
        rope_theta=1_000_000.0,
    ),
    "olmoe": FamilyDefaults(
        fields=LLAMA
        | {
            "rms_norm_eps": 1e-5,
            "clip_qkv": None,
            "eos_token_id": 50_279,
            "norm_topk_prob": False,
            "num_experts": 64,
            "num_experts_per_tok": 8,
        },
        aliases={"num_local_experts": "num_experts"},
    ),
    "qwen2_moe": FamilyDefaults(
        fields=_WITHOUT_BIAS
        | {
            "num_key_value_heads": 16,
            "qkv_bias": True,
            "eos_token_id": None,
            "layer_types": None,
            "sliding_window": 4096,
            "use_sliding_window": False,
            "max_window_layers": 28,
            "decoder_sparse_step": 1,
            "mlp_only_layers": None,
            "moe_intermediate_size": 1408,
            "shared_expert_intermediate_size": 5632,
            "norm_topk_prob": False,
            "num_experts": 60,
            "num_experts_per_tok": 4,
        },
        complete=_qwen2,
    ),
    "qwen3_moe": FamilyDefaults(
        fields=LLAMA
        | {
            "num_key_value_heads": 4,
            "eos_token_id": None,
            "sliding_window": 4096,
            "use_sliding_window": False,
            "decoder_sparse_step": 1,
            "mlp_only_layers": None,
            "moe_intermediate_size": 768,
            "norm_topk_prob": False,
            "num_local_experts": 128,
            "num_experts_per_tok": 8,
        },
        aliases={"num_experts": "num_local_experts"},
        complete=_qwen3,
    ),
}
