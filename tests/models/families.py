"""Small random models of every family that has a layer plan, and transformers' logits of them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from service.engine.models.checkpoint.adapter_files import Adapter, LowRank
from service.engine.models.plans.families.table import FAMILIES, RECURRENT, plan_of
from service.engine.models.plans.plan import DecoderPlan, ExpertsPlan
from tests.models.made import class_of
from tests.models.shapes import VOCAB_SIZE, small

LENGTH = 90  # of a text, in tokens
# Options of a family that its small model does not have.
VARIANTS: dict[str, dict[str, Any]] = {
    "arcee, biases": {"attention_bias": True, "mlp_bias": True},
    "cohere, head norms": {"use_qk_norm": True, "attention_bias": True, "logit_scale": 1.0},
    "deepseek_v2, groups": {
        "num_experts": 8,
        "topk_method": "group_limited_greedy",
        "n_group": 4,
        "topk_group": 2,
        "attention_bias": True,
        "routed_scaling_factor": 2.0,
    },
    "deepseek_v2, one product of queries": {"q_lora_rank": None, "attention_bias": True},
    "deepseek_v3, groups": {
        "num_local_experts": 8,
        "n_group": 4,
        "topk_group": 2,
        "attention_bias": True,
        "num_attention_heads": 20,
        "num_key_value_heads": 20,
        "kv_lora_rank": 40,
        "qk_nope_head_dim": 20,
    },
    "deepseek_v3, yarn": {
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 1e4,
            "factor": 4.0,
            "original_max_position_embeddings": 64,
            "mscale": 1.0,
            "mscale_all_dim": 0.7,
            "beta_fast": 32,
            "beta_slow": 1,
        },
    },
    "ernie4_5, biases": {"use_bias": True},
    "falcon, one norm": {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
    "falcon, two norms": {"new_decoder_architecture": True, "num_kv_heads": 2},
    "falcon, all kv heads": {"multi_query": False, "num_kv_heads": 4, "bias": True},
    "falcon, sequential": {"parallel_attn": False},
    "gemma3_text, capped logits": {"final_logit_softcapping": 5.0},
    "gemma3n_text, no shared keys": {"num_kv_shared_layers": 0, "altup_correct_scale": False, "altup_num_inputs": 3},
    "gemma4_text, no inputs": {
        "hidden_size_per_layer_input": 0,
        "num_kv_shared_layers": 0,
        "attention_k_eq_v": True,
        "final_logit_softcapping": 5.0,
    },
    "gemma4_text, experts": {
        "enable_moe_block": True,
        "num_experts": 6,
        "top_k_experts": 3,
        "moe_intermediate_size": 40,
    },
    "gpt_neox, sequential": {"use_parallel_residual": False},
    "granite, multipliers": {"embedding_multiplier": 3.0, "residual_multiplier": 0.22, "logits_scaling": 0.5},
    "granite_swa, layers without rotation": {"layer_rope_theta": [10_000.0, 0, 5e5, 0]},
    "falcon_h1, multipliers": {
        "mamba_rms_norm": True,
        "mamba_norm_before_gate": False,
        "lm_head_multiplier": 0.5,
        "embedding_multiplier": 3.0,
        "mlp_multipliers": [0.7, 1.3],
        "key_multiplier": 0.6,
        "attention_in_multiplier": 1.2,
        "attention_out_multiplier": 0.8,
        "ssm_multipliers": [0.5, 0.8, 1.2, 0.9, 1.1],
        "ssm_in_multiplier": 0.9,
        "ssm_out_multiplier": 1.4,
    },
    "falcon_h1, norm first": {"mamba_rms_norm": True, "projectors_bias": True, "mlp_bias": True},
    "granitemoehybrid, dense": {"num_local_experts": 0, "position_embedding_type": "rope", "mamba_proj_bias": True},
    "hunyuan_v1_dense, stretched": {
        "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "alpha": 50.0, "factor": 1.0},
    },
    "hunyuan_v1_moe, chosen by layer": {
        "moe_topk": [2, 1, 3, 2],
        "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "alpha": 50.0, "factor": 1.0},
    },
    "lfm2, biases": {"conv_bias": True, "conv_L_cache": 4},
    "mamba2, biases": {"use_bias": True, "use_conv_bias": False, "time_step_limit": (0.1, 0.4)},
    "minimax, factors": {
        "layer_types": ["linear_attention", "linear_attention", "full_attention", "linear_attention"],
        "full_attn_alpha_factor": 1.7,
        "full_attn_beta_factor": 0.8,
        "linear_attn_alpha_factor": 3.5,
        "linear_attn_beta_factor": 1.3,
        "mlp_alpha_factor": 0.6,
        "mlp_beta_factor": 1.2,
        "sliding_window": None,
    },
    "minimax_m2, partly rotated": {
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    },
    "ministral3, long": {
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 1e4,
            "factor": 4.0,
            "original_max_position_embeddings": 20,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "llama_4_scaling_beta": 0.4,
        },
    },
    "mamba, biases": {"use_bias": True, "use_conv_bias": False, "conv_kernel": 3},
    "nemotron_h, experts": {
        "layer_types": ["linear_attention", "moe", "full_attention", "moe"],
        "moe_shared_expert_intermediate_size": 48,
        "routed_scaling_factor": 1.5,
    },
    "nemotron, biases": {"attention_bias": True, "mlp_bias": True},
    "olmo, limited": {"clip_qkv": 0.5},
    "phi, head norms": {"qk_layernorm": True},
    "seed_oss, biases": {"attention_out_bias": True, "mlp_bias": True},
    "stablelm, parallel": {"use_parallel_residual": True, "use_qkv_bias": True},
    "starcoder2, window": {"sliding_window": 9},
}
NAMES = (*FAMILIES, *VARIANTS)
ATTENTION_NAMES = tuple(name for name in NAMES if name.partition(",")[0] not in RECURRENT)
_MIXERS = {"attn", "attention", "self_attn", "self_attention", "linear_attn", "conv", "mamba", "mixer"}


def config_of(name: str) -> Any:
    """Return the configuration of a small model."""
    return small(name.partition(",")[0], **VARIANTS.get(name, {}))


@cache
def model_of(name: str) -> Any:
    """Return a small random transformers model whose logits differ clearly."""
    return random_model(config_of(name))


def random_model(config: Any) -> Any:
    """Return a random transformers model of a configuration."""
    torch.manual_seed(0)
    model: Any = class_of(config)(config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.empty_like(parameter).normal_(std=0.15 if parameter.dim() > 1 else 0.05, generator=generator)
            parameter.copy_(noise if parameter.dim() > 1 else parameter + noise)
    return model.eval()


def some_tokens(seed: int, length: int = LENGTH) -> list[int]:
    tokens: list[int] = np.random.default_rng(seed).integers(0, VOCAB_SIZE, length).tolist()
    return tokens


def logits_of(model: Any, token_ids: list[int]) -> NDArray[np.float32]:
    with torch.inference_mode():
        logits: NDArray[np.float32] = model(torch.tensor([token_ids])).logits[0].float().numpy()
    return logits


def _is_fixed(module_name: str, plan: DecoderPlan) -> bool:
    """Return whether a module belongs to experts, a router, a shared expert or the coefficients of residuals."""
    if ".altup." in module_name:
        return True
    number = re.search(r"layers\.(\d+)\.", module_name)
    if number is None:
        return False
    layer = plan.layers[int(number[1])]
    has_mixer = layer.attention is not None or layer.recurrent is not None
    if has_mixer and not _MIXERS.isdisjoint(module_name.split(".")):
        return False
    if layer.experts is not None:
        return ".router." in module_name
    return isinstance(layer.feed_forward, ExpertsPlan)


def adapter_of(model: Any) -> Adapter:
    """Return a random adapter that changes each linear layer but those of experts and of several residuals."""
    generator, plan = torch.Generator().manual_seed(1), plan_of(model.config)
    modules = {}
    for name, module in model.named_modules():
        is_in_layer = "layers." in name.replace(".h.", ".layers.")
        if isinstance(module, torch.nn.Linear) and is_in_layer and not _is_fixed(name, plan):
            down = torch.randn(3, module.in_features, generator=generator) * 0.1
            up = torch.randn(module.out_features, 3, generator=generator) * 0.1
            modules[name] = LowRank(down.numpy(), up.numpy())
    return Adapter(Path("folder"), modules, "digest")
