"""Metadata that llama.cpp's converter writes for single families, from their configurations."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import gguf
import numpy as np

# The keys of fields that configurations usually have, and of those that only some families have.
USUAL = {
    "max_position_embeddings": "context_length",
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "head_count",
    "num_key_value_heads": "head_count_kv",
    "head_dim": "key_length",
    "rms_norm_eps": "layer_norm_rms_eps",
    "norm_eps": "layer_norm_eps",
    "norm_epsilon": "layer_norm_eps",
    "layer_norm_epsilon": "layer_norm_eps",
    "layer_norm_eps": "layer_norm_eps",
    "num_local_experts": "expert_count",
    "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
}
OWN = {
    "logit_scale": "logit_scale",
    "sliding_window": "sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "moe_intermediate_size": "expert_feed_forward_length",
    "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    "attention_multiplier": "attention_scale",
    "embedding_multiplier": "embedding_scale",
    "residual_multiplier": "residual_scale",
    "logits_scaling": "logit_scale",
}


def pattern(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])


def rotated(writer: gguf.GGUFWriter, config: Any) -> None:
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_rope_dimension_count(int(head_dim * config.rope_parameters["partial_rotary_factor"]))


def phi3(writer: gguf.GGUFWriter, config: Any) -> None:
    rope = config.rope_parameters
    writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    for name in ("long", "short"):
        writer.add_tensor(f"rope_factors_{name}.weight", np.array(rope[f"{name}_factor"], np.float32))


def gemma3(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    pattern(writer, config)


def yarn(writer: gguf.GGUFWriter, config: Any) -> None:
    rope = config.rope_parameters
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if "beta_fast" in rope:
        writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])


def stretched(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_rope_scaling_alpha(config.rope_parameters["alpha"])


def kv_heads(config: Any) -> list[int]:
    """Return the number of each layer's heads of keys, 0 for layers without attention."""
    kinds = {"attention", "full_attention"}
    return [config.num_key_value_heads if kind in kinds else 0 for kind in config.layer_types]


def parallel(writer: gguf.GGUFWriter, config: Any) -> None:
    rotated(writer, config)
    writer.add_parallel_residual(config.use_parallel_residual)


def routed(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_shared_count(config.n_shared_experts)
    kinds = getattr(config, "mlp_layer_types", None)
    writer.add_leading_dense_block_count(kinds.count("dense") if kinds else config.first_k_dense_replace)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_weights_norm(getattr(config, "norm_topk_prob", False))
    if config.n_group is not None:
        writer.add_expert_group_count(config.n_group)
        writer.add_expert_group_used_count(config.topk_group)


def glm_moe(writer: gguf.GGUFWriter, config: Any) -> None:
    routed(writer, config)
    rotated(writer, config)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_block_count(config.num_hidden_layers)


def glm_moe_with_predictor(writer: gguf.GGUFWriter, config: Any) -> None:
    routed(writer, config)
    rotated(writer, config)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    add_predictor(writer, config)


def add_predictor(writer: gguf.GGUFWriter, config: Any) -> None:
    """Add a layer that predicts further tokens, which isn't computed."""
    writer.add_block_count(config.num_hidden_layers + 1)
    writer.add_nextn_predict_layers(1)
    for name, shape in (("nextn.enorm", (7,)), ("nextn.eh_proj", (7, 14)), ("attn_k", (3, 7))):
        writer.add_tensor(f"blk.{config.num_hidden_layers}.{name}.weight", np.ones(shape, np.float32))


def deepseek(writer: gguf.GGUFWriter, config: Any) -> None:
    routed(writer, config)
    if config.model_type != "deepseek_v2":
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if config.q_lora_rank is not None:
        writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_kv_lora_rank(config.kv_lora_rank)
    writer.add_head_count_kv(1)
    writer.add_key_length(config.kv_lora_rank + config.qk_rope_head_dim)
    writer.add_value_length(config.kv_lora_rank)
    writer.add_key_length_mla(config.qk_nope_head_dim + config.qk_rope_head_dim)
    writer.add_value_length_mla(config.v_head_dim)
    writer.add_rope_dimension_count(config.qk_rope_head_dim)
    if config.rope_parameters["rope_type"] == "yarn":
        yarn(writer, config)
        writer.add_rope_scaling_yarn_log_mul(0.1 * config.rope_parameters["mscale_all_dim"])


def ernie_moe(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_expert_count(config.moe_num_experts)
    writer.add_expert_used_count(config.moe_k)
    writer.add_interleave_moe_layer_step(config.moe_layer_interval)
    writer.add_leading_dense_block_count(config.moe_layer_start_index)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_shared_count(config.moe_num_shared_experts)
    writer.add_expert_shared_feed_forward_length(config.moe_intermediate_size * config.moe_num_shared_experts)


def mistral3(writer: gguf.GGUFWriter, config: Any) -> None:
    rope = config.rope_parameters
    yarn(writer, config)
    writer.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
    writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])


def apertus(writer: gguf.GGUFWriter, config: Any) -> None:
    rope, dim = config.rope_parameters, config.hidden_size // config.num_attention_heads
    lengths = 2 * np.pi * rope["rope_theta"] ** (np.arange(0, dim, 2) / dim)
    original, low, high = (
        rope[name] for name in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
    )
    smooth = np.clip((original / lengths - low) / (high - low), 0, 1)
    writer.add_tensor("rope_freqs.weight", (1 / ((1 - smooth) / rope["factor"] + smooth)).astype(np.float32))


def write_curves(writer: gguf.GGUFWriter, model: Any) -> None:
    state = model.state_dict()
    for own in ("alpha_p", "alpha_n", "beta", "eps"):
        numbers = [
            float(state[f"model.layers.{layer}.mlp.act_fn.{own}"]) for layer in range(model.config.num_hidden_layers)
        ]
        getattr(writer, f"add_xielu_{own}")(numbers)


def gemma3n(writer: gguf.GGUFWriter, config: Any) -> None:
    pattern(writer, config)
    writer.add_altup_active_idx(config.altup_active_idx)
    writer.add_altup_num_inputs(config.altup_num_inputs)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    shares = [NormalDist().inv_cdf(share) if share else -math.inf for share in config.activation_sparsity_pattern]
    writer.add_activation_sparsity_scale(shares)


def gemma4(writer: gguf.GGUFWriter, config: Any) -> None:
    layers = list(config.per_layer_config)
    full, sliding = (config.layer_types.index(f"{kind}_attention") for kind in ("full", "sliding"))
    pattern(writer, config)
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    for width, end in ((layers[full].head_dim, ""), (layers[sliding].head_dim, "_swa")):
        getattr(writer, f"add_key_length{end}")(width)
        getattr(writer, f"add_value_length{end}")(width)
        getattr(writer, f"add_rope_dimension_count{end}")(width)
    own, first_shared = config.intermediate_size, config.num_hidden_layers - config.num_kv_shared_layers
    if config.use_double_wide_mlp:
        writer.add_feed_forward_length([own if layer < first_shared else 2 * own for layer in range(len(layers))])
    else:
        writer.add_feed_forward_length(own)
    writer.add_head_count_kv([layer.num_key_value_heads for layer in layers])
    writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    half = layers[full].head_dim // 2
    num_rotated = int(half * config.rope_parameters["full_attention"]["partial_rotary_factor"])
    factors = np.array([1.0] * num_rotated + [1e30] * (half - num_rotated), np.float32)
    writer.add_tensor("rope_freqs.weight", factors)
    if config.enable_moe_block:
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.top_k_experts)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)


def dots1(writer: gguf.GGUFWriter, config: Any) -> None:
    routed(writer, config)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def exaone_moe(writer: gguf.GGUFWriter, config: Any) -> None:
    pattern(writer, config)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_shared_count(config.num_shared_experts)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_weights_norm(config.norm_topk_prob)
    writer.add_expert_group_count(config.n_group)
    writer.add_expert_group_used_count(config.topk_group)


def hunyuan_moe(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_expert_shared_feed_forward_length(config.intermediate_size)
    writer.add_expert_feed_forward_length(config.intermediate_size)
    writer.add_expert_used_count(config.moe_topk)
    writer.add_expert_shared_count(1)


def minimax_m2(writer: gguf.GGUFWriter, config: Any) -> None:
    head_dim, rope = config.head_dim, config.rope_parameters
    writer.add_rope_dimension_count(int(head_dim * rope.get("partial_rotary_factor", 1.0)))
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_expert_feed_forward_length(config.intermediate_size)


def olmo(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_layer_norm_eps(1e-5)
    if config.clip_qkv is not None:
        writer.add_clamp_kqv(config.clip_qkv)


def falcon(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_context_length(2048)
    writer.add_feed_forward_length(4 * config.hidden_size)
    writer.add_head_count_kv(config.num_kv_heads if config.new_decoder_architecture else 1)


def minicpm3(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_kv_lora_rank(config.kv_lora_rank)
    writer.add_key_length(config.qk_nope_head_dim + config.qk_rope_head_dim)
    writer.add_rope_dimension_count(config.qk_rope_head_dim)
    if config.rope_parameters["rope_type"] == "longrope":
        long_factors(writer, config)


def long_factors(writer: gguf.GGUFWriter, config: Any) -> None:
    for name in ("long", "short"):
        factors = np.array(config.rope_parameters[f"{name}_factor"], np.float32)
        writer.add_tensor(f"rope_factors_{name}.weight", factors)


def minicpm(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
    long_factors(writer, config)


def bitnet(writer: gguf.GGUFWriter, _: Any) -> None:
    writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    writer.add_rope_scaling_factor(1.0)
