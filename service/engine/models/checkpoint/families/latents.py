"""The defaults of types with attention over latents."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.checkpoint.families.dense import LLAMA
from service.engine.models.checkpoint.families.family_defaults import FamilyDefaults, Fields

_DEEPSEEK: Final[dict[str, Any]] = LLAMA | {
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}
_LATER: Final = _DEEPSEEK | {"eos_token_id": 1, "rope_interleave": True}


def _glm4_moe_lite(fields: Fields) -> None:
    if fields["mlp_layer_types"] is None:
        fields["mlp_layer_types"] = ["dense"] + ["sparse"] * (fields["num_hidden_layers"] - 1)


def _minicpm3(fields: Fields) -> None:
    if fields["v_head_dim"] is None:
        fields["v_head_dim"] = fields["hidden_size"] // fields["num_attention_heads"]
    if fields["scale_depth"] is None:
        fields["scale_depth"] = fields["num_hidden_layers"] ** 0.5
    if fields["dim_model_base"] is None:
        fields["dim_model_base"] = fields["hidden_size"]


LATENTS: Final = {
    "deepseek_v2": FamilyDefaults(
        fields=_DEEPSEEK
        | {
            "mlp_bias": False,
            "first_k_dense_replace": 0,
            "moe_intermediate_size": 1407,
            "n_group": None,
            "n_routed_experts": 64,
            "n_shared_experts": 2,
            "num_experts_per_tok": None,
            "routed_scaling_factor": 1.0,
            "topk_group": None,
            "topk_method": "greedy",
        },
        aliases={"num_experts": "n_routed_experts"},
    ),
    "deepseek_v3": FamilyDefaults(
        fields=_LATER
        | {
            "num_key_value_heads": 128,
            "first_k_dense_replace": 3,
            "moe_intermediate_size": 2048,
            "n_group": 8,
            "n_routed_experts": 256,
            "n_shared_experts": 1,
            "norm_topk_prob": True,
            "num_experts_per_tok": 8,
            "routed_scaling_factor": 2.5,
            "topk_group": 4,
        },
        aliases={"num_local_experts": "n_routed_experts"},
    ),
    "glm4_moe_lite": FamilyDefaults(
        fields=_LATER
        | {
            "num_key_value_heads": 20,
            "rms_norm_eps": 1e-5,
            "q_lora_rank": 768,
            "qk_nope_head_dim": 192,
            "v_head_dim": 256,
            "mlp_layer_types": None,
            "moe_intermediate_size": 1536,
            "n_group": 1,
            "n_routed_experts": 64,
            "n_shared_experts": 1,
            "norm_topk_prob": True,
            "num_experts_per_tok": 4,
            "routed_scaling_factor": 1.8,
            "topk_group": 1,
        },
        aliases={"num_local_experts": "n_routed_experts", "head_dim": "qk_rope_head_dim"},
        complete=_glm4_moe_lite,
    ),
    "minicpm3": FamilyDefaults(
        fields=_DEEPSEEK
        | {
            "num_key_value_heads": 40,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": True,
            "mlp_bias": False,
            "kv_lora_rank": 256,
            "q_lora_rank": 768,
            "qk_nope_head_dim": 64,
            "qk_rope_head_dim": 32,
            "v_head_dim": None,
            "dim_model_base": 256,
            "scale_depth": 1.4,
            "scale_emb": 12,
        },
        complete=_minicpm3,
    ),
    "youtu": FamilyDefaults(
        fields=_LATER | {"num_key_value_heads": 16, "tie_word_embeddings": True, "eos_token_id": 128_001}
    ),
}
