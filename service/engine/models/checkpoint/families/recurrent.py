"""The defaults of types with short convolutions, delta nets or lightning attention in many layers."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.checkpoint.families.dense import LLAMA
from service.engine.models.checkpoint.families.family_defaults import FamilyDefaults, Fields

LAYER_KINDS: Final = ("full_attention", "linear_attention", "attention", "mamba", "conv")
WITHOUT_ATTENTION: Final = ("vocab_size", "hidden_size", "num_hidden_layers")
_LFM2: Final[dict[str, Any]] = {
    "num_key_value_heads": 8,
    "norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "eos_token_id": 2,
    "conv_bias": False,
    "conv_L_cache": 3,
    "layer_types": None,
}
_DELTA_NET: Final = LLAMA | {
    "num_key_value_heads": 2,
    "eos_token_id": None,
    "head_dim": 256,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "layer_types": None,
}
_DELTA_NET_EXPERTS: Final = {"moe_intermediate_size": 512, "shared_expert_intermediate_size": 512}


def _lfm2(fields: Fields) -> None:
    if fields["layer_types"] is None:
        number = fields["num_hidden_layers"]
        full = range(number) if fields["full_attn_idxs"] is None else fields["full_attn_idxs"]
        fields["layer_types"] = ["full_attention" if i in full else "conv" for i in range(number)]


def _delta_net(fields: Fields) -> None:
    if fields["layer_types"] is None:
        period = fields.get("full_attention_interval", 4)
        fields["layer_types"] = [
            "linear_attention" if (i + 1) % period else "full_attention" for i in range(fields["num_hidden_layers"])
        ]
    if "mlp_only_layers" in fields and fields["mlp_only_layers"] is None:
        fields["mlp_only_layers"] = []


def _minimax(fields: Fields) -> None:
    if fields["layer_types"] is None:
        fields["layer_types"] = [
            "linear_attention" if i % 2 else "full_attention" for i in range(fields["num_hidden_layers"])
        ]


RECURRENT: Final = {
    "minimax": FamilyDefaults(
        fields={
            "num_key_value_heads": 8,
            "head_dim": None,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": False,
            "eos_token_id": 2,
            "sliding_window": None,
            "num_experts_per_tok": 2,
            "num_local_experts": 8,
            "layer_types": None,
            "full_attn_alpha_factor": 1.0,
            "full_attn_beta_factor": 1.0,
            "linear_attn_alpha_factor": 1.0,
            "linear_attn_beta_factor": 1.0,
            "mlp_alpha_factor": 1.0,
            "mlp_beta_factor": 1.0,
        },
        complete=_minimax,
        rope_theta=1_000_000.0,
        kinds=LAYER_KINDS,
    ),
    "lfm2": FamilyDefaults(
        fields=_LFM2
        | {
            "block_multiple_of": 256,
            "block_ffn_dim_multiplier": 1.0,
            "block_auto_adjust_ff_dim": True,
            "full_attn_idxs": None,
        },
        aliases={"tie_embedding": "tie_word_embeddings", "block_ff_dim": "intermediate_size"},
        complete=_lfm2,
        rope_theta=1_000_000.0,
        kinds=LAYER_KINDS,
    ),
    "lfm2_moe": FamilyDefaults(
        fields=_LFM2
        | {
            "moe_intermediate_size": 1792,
            "num_dense_layers": 2,
            "num_experts_per_tok": 4,
            "num_experts": 32,
            "use_expert_bias": True,
            "routed_scaling_factor": 1.0,
            "norm_topk_prob": True,
        },
        aliases={"tie_embedding": "tie_word_embeddings"},
        rope_theta=1_000_000.0,
        kinds=LAYER_KINDS,
    ),
    "qwen3_next": FamilyDefaults(
        fields=_DELTA_NET
        | _DELTA_NET_EXPERTS
        | {
            "decoder_sparse_step": 1,
            "num_experts_per_tok": 10,
            "num_experts": 512,
            "norm_topk_prob": True,
            "mlp_only_layers": None,
        },
        complete=_delta_net,
        rotated_share=0.25,
        kinds=LAYER_KINDS,
    ),
    "qwen3_5_text": FamilyDefaults(
        fields=_DELTA_NET | {"num_key_value_heads": 4}, complete=_delta_net, rotated_share=0.25, kinds=LAYER_KINDS
    ),
    "qwen3_5_moe_text": FamilyDefaults(
        fields=_DELTA_NET | _DELTA_NET_EXPERTS | {"num_experts_per_tok": 8, "num_experts": 256},
        complete=_delta_net,
        rotated_share=0.25,
        kinds=LAYER_KINDS,
        stated=(*WITHOUT_ATTENTION, "num_attention_heads", "max_position_embeddings"),
    ),
}
