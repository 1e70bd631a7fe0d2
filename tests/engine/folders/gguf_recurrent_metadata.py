"""Metadata that llama.cpp's converter writes for families with recurrent layers, from their configurations."""

from __future__ import annotations

from typing import Any

import gguf

from tests.engine.folders import gguf_metadata as metadata


def lfm2(writer: gguf.GGUFWriter, config: Any) -> None:
    kinds, width = config.layer_types, int(2 * config.intermediate_size / 3)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    multiple = config.block_multiple_of
    writer.add_feed_forward_length(-(-int(config.block_ffn_dim_multiplier * width) // multiple) * multiple)
    writer.add_head_count_kv([config.num_key_value_heads if kind == "full_attention" else 0 for kind in kinds])
    writer.add_shortconv_l_cache(config.conv_L_cache)


def lfm2_moe(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_head_count_kv(metadata.kv_heads(config))
    writer.add_shortconv_l_cache(config.conv_L_cache)
    writer.add_leading_dense_block_count(config.num_dense_layers)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def granite_hybrid(writer: gguf.GGUFWriter, config: Any) -> None:
    inner = config.mamba_n_heads * config.mamba_d_head
    ssm(writer, config.mamba_d_conv, config.mamba_d_state, config.mamba_n_groups, config.mamba_n_heads, inner)
    writer.add_head_count_kv(metadata.kv_heads(config))
    writer.add_rope_scaling_finetuned(config.position_embedding_type == "rope")
    writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)


def ssm(writer: gguf.GGUFWriter, *sizes: int) -> None:
    taps, state, groups, heads, inner = sizes
    writer.add_ssm_conv_kernel(taps)
    writer.add_ssm_state_size(state)
    writer.add_ssm_group_count(groups)
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_inner_size(inner)


def falcon_h1(writer: gguf.GGUFWriter, config: Any) -> None:
    ssm(
        writer,
        *(config.mamba_d_conv, config.mamba_d_state, config.mamba_n_groups, config.mamba_n_heads, config.mamba_d_ssm),
    )


def _delta_net(writer: gguf.GGUFWriter, config: Any) -> None:
    heads = config.linear_num_value_heads
    inner = config.linear_value_head_dim * heads
    ssm(writer, config.linear_conv_kernel_dim, config.linear_key_head_dim, config.linear_num_key_heads, heads, inner)
    metadata.rotated(writer, config)


def delta_net(writer: gguf.GGUFWriter, config: Any) -> None:
    _delta_net(writer, config)
    writer.add_full_attention_interval(config.layer_types.index("full_attention") + 1)


def delta_net_with_predictor(writer: gguf.GGUFWriter, config: Any) -> None:
    """Write the kinds of layers as a list, and a layer that isn't computed."""
    _delta_net(writer, config)
    recurs = [kind == "linear_attention" for kind in config.layer_types]
    writer.add_array(f"{writer.arch}.attention.recurrent_layers", [*recurs, False])
    metadata.add_predictor(writer, config)


def mamba(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_context_length(1 << 20)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_layer_norm_rms_eps(config.layer_norm_epsilon)
    if config.model_type == "mamba2":
        inner = config.num_heads * config.head_dim
        ssm(writer, config.conv_kernel, config.state_size, config.n_groups, config.num_heads, inner)
        return
    writer.add_ssm_conv_kernel(config.conv_kernel)
    writer.add_ssm_state_size(config.state_size)
    writer.add_ssm_time_step_rank(config.time_step_rank)
    writer.add_ssm_inner_size(config.intermediate_size)
    writer.add_ssm_dt_b_c_rms(config.model_type == "falcon_mamba")


def jamba(writer: gguf.GGUFWriter, config: Any) -> None:
    kinds = config.layers_block_type
    writer.add_head_count_kv([config.num_key_value_heads if kind == "attention" else 0 for kind in kinds])
    writer.add_ssm_conv_kernel(config.mamba_d_conv)
    writer.add_ssm_state_size(config.mamba_d_state)
    writer.add_ssm_time_step_rank(config.mamba_dt_rank)
    writer.add_ssm_inner_size(config.mamba_expand * config.hidden_size)


def nemotron_h(writer: gguf.GGUFWriter, config: Any) -> None:
    heads, widths = config.mamba_num_heads, {"mlp": config.intermediate_size, "moe": config.moe_intermediate_size}
    writer.add_layer_norm_rms_eps(config.layer_norm_epsilon)
    ssm(writer, config.conv_kernel, config.ssm_state_size, config.n_groups, heads, heads * config.mamba_head_dim)
    writer.add_head_count_kv(metadata.kv_heads(config))
    writer.add_feed_forward_length([widths.get(kind, 0) for kind in config.layer_types])
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    if "moe" in config.layer_types:
        writer.add_expert_count(config.n_routed_experts)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
        writer.add_expert_shared_feed_forward_length(config.moe_shared_expert_intermediate_size)
        writer.add_expert_shared_count(config.n_shared_experts)
        writer.add_expert_weights_norm(config.norm_topk_prob)
        writer.add_expert_weights_scale(config.routed_scaling_factor)
        writer.add_expert_group_count(config.n_group)
