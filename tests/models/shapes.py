"""Small configurations of every architecture in transformers, derived from its defaults."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from transformers import CONFIG_MAPPING

VOCAB_SIZE = 101
MAX_POSITIONS = 256

_SMALL: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 64,
    "n_embd": 64,
    "d_model": 64,
    "n_embed": 64,
    "embedding_size": 64,
    "intermediate_size": 96,
    "n_inner": 96,
    "ffn_hidden_size": 96,
    "ffn_dim": 96,
    "decoder_ffn_dim": 96,
    "encoder_ffn_dim": 96,
    "num_hidden_layers": 4,
    "num_layers": 4,
    "n_layer": 4,
    "n_layers": 4,
    "decoder_layers": 4,
    "encoder_layers": 2,
    "num_attention_heads": 4,
    "n_head": 4,
    "n_heads": 4,
    "num_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_kv_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": MAX_POSITIONS,
    "n_positions": MAX_POSITIONS,
    "max_seq_len": MAX_POSITIONS,
    "sliding_window": 11,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_topk": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "expert_ffn_hidden_size": 32,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 12,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "state_size": 8,
    "mamba_d_state": 8,
    "mamba_chunk_size": 16,  # transformers fills every text up to whole chunks
    "eos_token_id": 1,
    "bos_token_id": 1,
    "pad_token_id": 0,
}
# Sizes of the parts that process images or sound, which are loaded but never run.
_SMALL_PART: dict[str, Any] = {
    "depth": 2,
    "embed_dim": 64,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_layers": 2,
    "num_heads": 4,
    "num_attention_heads": 4,
    "head_dim": 16,
    "image_size": 32,
    "patch_size": 16,
    "out_hidden_size": 64,
    "projection_dim": 64,
}
# Overrides for architectures that the sizes above don't suit.
_AXES: dict[str, Any] = {"rope_theta": 10_000.0, "rope_type": "default", "mrope_section": [2, 3, 3]}
_HYBRID = ["linear_attention", "full_attention", "linear_attention", "full_attention"]
_LONGROPE: dict[str, Any] = {
    "rope_theta": 10_000.0,
    "rope_type": "longrope",
    "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7],
    "long_factor": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    "original_max_position_embeddings": 128,
}
_UNGROUPED: dict[str, Any] = {"num_key_value_heads": 4}
_OF_AXES: dict[str, Any] = {"rope_parameters": _AXES}
_DELTA_NET = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 24,
    "linear_value_head_dim": 40,
}
_MORE: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        (
            *("axk1", "axk2", "deepseek_v2", "deepseek_v3", "deepseek_v32", "dots3_note_text", "glm4_moe_lite"),
            *("glm_moe_dsa", "minicpm3", "kimi_linear", "hy_v4", "bailing_hybrid"),
        ),
        _UNGROUPED,
    ),
    "bailing_hybrid": {"layer_types": _HYBRID, **_UNGROUPED},
    "bamba": {"attn_layer_indices": [1, 3]},
    "codegen": {"rotary_dim": 8},
    "granitemoehybrid": {"layer_types": ["mamba", "attention", "mamba", "attention"]},
    "kimi_linear": {"layer_types": _HYBRID, **_UNGROUPED},
    "phi3": {"rope_parameters": _LONGROPE, "original_max_position_embeddings": 128},
    "glm4v_moe_text": {"rope_parameters": {**_AXES, "mrope_section": [1, 1, 2]}},
    "hunyuan_vl_text": {"rope_parameters": {**_AXES, "mrope_section": [2, 2, 2, 2]}},
    "mistral_large4_text": _UNGROUPED,
    "youtu": {"pad_token_id": None, **_UNGROUPED},  # transformers zeroes this token's embedding when it loads a model
    "diffusion_gemma_text": {"top_k_experts": 2},
    "glm4v_text": _OF_AXES,
    "glm_ocr_text": _OF_AXES,
    "paddleocr_vl_text": _OF_AXES,
    "cohere_compass_text": {"layer_types": ["full_attention"] * 4},
    "dots1": {"n_shared_experts": 1},
    "gemma3n_text": {
        "num_hidden_layers": 4,
        "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "hidden_size_per_layer_input": 24,
        "vocab_size_per_layer_input": 90,
        "laurel_rank": 8,
        "activation_sparsity_pattern": [0.8, 0.0, 0.3, 0.0],
    },
    "gemma4_text": {
        "vocab_size_per_layer_input": 101,
        "hidden_size_per_layer_input": 24,
        "num_kv_shared_layers": 2,
        "use_double_wide_mlp": True,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "global_head_dim": 32,
        "num_global_key_value_heads": 1,
    },
    "mistral4": _UNGROUPED,
    "qwen2_5_omni_text": _OF_AXES,
    "zamba2": {"chunk_size": 16, "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"]},
    "longcat_flash": {"head_dim": 8, **_UNGROUPED},
    "xlstm": {"hidden_size": 128, "embedding_dim": 128},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]], "window_size": 11},
    "gptj": {"rotary_dim": 8},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "nemotron_h": {
        "layer_types": ["linear_attention", "mlp", "full_attention", "mlp"],
        "mamba_num_heads": 6,
        "mamba_head_dim": 24,
        "ssm_state_size": 16,
        "chunk_size": 16,
        "n_groups": 2,
    },
    "qwen3_next": _DELTA_NET,
    "qwen3_5_text": _DELTA_NET,
    "qwen3_5_moe_text": _DELTA_NET,
    "lfm2": {"layer_types": ["conv", "full_attention", "conv", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv", "full_attention"]},
    "mamba2": {"chunk_size": 16, "head_dim": 16, "num_heads": 8, "n_groups": 2},
    "reformer": {"is_decoder": True},
    "zaya": {"num_experts_per_tok": 1},
    "qwen2_5_vl_text": {"rope_parameters": _AXES},
    "qwen2_vl_text": {"rope_parameters": _AXES},
    "qwen3_vl_text": {"rope_parameters": {**_AXES, "mrope_interleaved": True}},
}


def small(kind: str, **more: Any) -> Any:
    """Return a configuration of the type `kind` with the sizes above, if it has such fields, and `more`."""
    cls = CONFIG_MAPPING[kind]
    values = _known(cls, _SMALL) | _MORE.get(kind, {})
    default = cls() if cls.sub_configs else None
    for name in cls.sub_configs:
        if (part := getattr(default, name, None)) is not None:
            sizes = _SMALL if name in {"text_config", "decoder"} else _SMALL_PART
            own = _MORE.get(part.model_type, {})
            values[name] = type(part)(**deepcopy(_known(type(part), sizes) | own)).to_dict()
    return cls(**deepcopy(values | more))  # some modify their arguments


def _known(cls: Any, sizes: dict[str, Any]) -> dict[str, Any]:
    known = set(getattr(cls, "__dataclass_fields__", ())) | set(cls.attribute_map)
    return {name: value for name, value in sizes.items() if name in known}
