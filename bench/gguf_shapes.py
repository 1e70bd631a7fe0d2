"""Small shapes of the families of GGUF files, and folders of them with random weights.

All widths are multiples of 256, the block of types such as Q4_K, where a family allows it. Weights are drawn so that
each layer matters and that distributions over the bundled model's vocabulary have peaks.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from bench import shapes

_VOCABULARY: Final = 2_048  # of the bundled model
_COMMON: Final[dict[str, Any]] = {
    "vocab_size": _VOCABULARY,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2_048,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": _VOCABULARY - 1,
    "pad_token_id": _VOCABULARY - 2,
}
_TIED: Final = {"tie_word_embeddings": True}
_SCALED: Final = {"residual_multiplier": 0.5, "attention_multiplier": 0.125}
_HEADS: Final = {"head_dim": 64}
_WINDOWS: Final = {"sliding_window": 32, "head_dim": 64}
_EXPERTS: Final = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 256, "norm_topk_prob": True}
_SHARED: Final = {"shared_expert_intermediate_size": 256}
_LATENTS: Final[dict[str, Any]] = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 256,
    "q_lora_rank": 256,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 256,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "routed_scaling_factor": 1.5,
    "rope_interleave": True,
}
_MINICPM3: Final[dict[str, Any]] = {
    "hidden_size": 512,
    "intermediate_size": 768,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "q_lora_rank": 256,
    "kv_lora_rank": 256,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
    "tie_word_embeddings": True,
}
_DELTA_NET: Final[dict[str, Any]] = {
    "head_dim": 64,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.25},
}
_SHAPES: Final[dict[str, dict[str, Any]]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": _HEADS,
    "smollm3": {},
    "gemma": _TIED | _HEADS,
    "gemma2": _TIED | _WINDOWS | {"query_pre_attn_scalar": 64},
    "gemma3_text": _WINDOWS | {"query_pre_attn_scalar": 64, "num_hidden_layers": 7},
    "phi3": {"original_max_position_embeddings": 2_048},
    "granite": _SCALED | {"embedding_multiplier": 6.0, "logits_scaling": 2.0},
    "olmo": {},
    "olmo2": {},
    "olmo3": {"sliding_window": 32},
    "cohere": _TIED | {"logit_scale": 0.5},
    "cohere2": _TIED | {"logit_scale": 0.5, "sliding_window": 32, "rotary_pct": 1.0},
    "exaone4": {"sliding_window": 32, "num_hidden_layers": 64},  # llama.cpp reads no window with other numbers
    "ernie4_5": _HEADS,
    "glm": _HEADS | {"partial_rotary_factor": 0.5},
    "glm4": _HEADS | {"partial_rotary_factor": 0.5},
    "seed_oss": _HEADS,
    "starcoder2": {"sliding_window": None},
    "stablelm": {"partial_rotary_factor": 0.5},
    "nemotron": {"partial_rotary_factor": 0.5},
    "jais2": {},
    "falcon": {"new_decoder_architecture": True, "num_kv_heads": 2, "bias": False, "tie_word_embeddings": True},
    "arcee": {},
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 3, "sliding_window": None},
    "olmoe": {"num_experts": 8, "num_experts_per_tok": 3},
    "granitemoe": _SCALED | {"num_local_experts": 8, "num_experts_per_tok": 3},
    "qwen2_moe": _EXPERTS | _SHARED | {"norm_topk_prob": False},
    "qwen3_moe": _EXPERTS | _HEADS,
    "gpt_oss": {  # llama.cpp rounds the borders of YaRN's ramp, which gpt-oss doesn't
        **_WINDOWS,
        "num_local_experts": 8,
        "num_experts_per_tok": 3,
        "rope_parameters": {"rope_type": "default", "rope_theta": 150_000.0},
    },
    "ernie4_5_moe": {"moe_num_experts": 8, "moe_k": 3, "moe_intermediate_size": 256, "moe_num_shared_experts": 1},
    "glm4_moe": _HEADS | _EXPERTS | {"n_routed_experts": 8, "n_shared_experts": 1, "first_k_dense_replace": 1},
    "minicpm3": _MINICPM3,
    "deepseek_v2": _LATENTS | {"topk_method": "greedy"},
    "deepseek_v3": _LATENTS | {"scoring_func": "sigmoid"},
    "lfm2": {"layer_types": ["conv", "full_attention", "conv", "full_attention"], "block_auto_adjust_ff_dim": False},
    "falcon_h1": {
        **_HEADS,
        "mamba_d_ssm": 512,
        "mamba_n_heads": 8,
        "mamba_d_head": 64,
        "mamba_d_state": 64,
        "mamba_n_groups": 1,
    },
    "qwen3_5_text": _DELTA_NET,
    "qwen3_5_moe_text": _DELTA_NET | _EXPERTS | _SHARED,
    "qwen3_next": _DELTA_NET | _EXPERTS | _SHARED,
}
GGUF_MODELS: Final = tuple(_SHAPES)
_GAIN: Final = 3.0  # of the final norm, so of the logits
_FINAL_NORMS: Final = ("model.norm.weight", "model.final_layernorm.weight", "model.embedding_norm.weight")
_KEPT: Final = ("A_log", "dt_bias", ".D", "act_fn")  # parameters that have a distribution of their own


def gguf_shape_folder(name: str) -> Path:
    """Return a folder with random bf16 weights of a family's small shape, created once."""
    folder = shapes.ROOT / ".cache" / "bench" / f"gguf-{name}"
    if folder.is_dir():
        return folder
    building = folder.with_suffix(".building")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(shapes.DEMO / file, building / file)
    torch.manual_seed(0)
    config = CONFIG_MAPPING[name](**_COMMON | _SHAPES[name])
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for parameter, drawn in _drawn(model):
            parameter.copy_(drawn)
    model.generation_config.eos_token_id = config.eos_token_id
    model.to(torch.bfloat16).save_pretrained(building)
    building.rename(folder)
    return folder


def _drawn(model: torch.nn.Module) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield each parameter with its random values: matrices that keep the size of their inputs, norms close to 1."""
    for name, parameter in model.named_parameters():
        if name.endswith(_KEPT) or ".act_fn." in name:
            continue
        if parameter.ndim > 1:
            yield parameter, torch.randn_like(parameter) * parameter.shape[-1] ** -0.5
        else:
            values = parameter + 0.1 * torch.randn_like(parameter)
            yield parameter, values * _GAIN if name in _FINAL_NORMS else values
