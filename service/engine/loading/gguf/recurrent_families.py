"""The config.json fields of GGUF families with short convolutions, Mamba or Mamba-2."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from service.engine.loading.gguf.metadata import GgufMetadata, head_dim_of
from service.engine.loading.gguf.mixed_families import require_sigmoid
from service.generation.errors import ModelLoadError

Fields: TypeAlias = dict[str, Any]

_DOWN_EXPERTS: Final = "blk.*.ffn_down_exps.weight"
_EPSILON: Final = "attention.layer_norm_rms_epsilon"
_KV_HEADS: Final = "attention.head_count_kv"  # a list, with 0 for layers without attention


def lfm2(metadata: GgufMetadata) -> Fields:
    """Return the fields of LFM2."""
    num_kv_heads = metadata.layers("attention.head_count_kv") or []
    return {
        "num_key_value_heads": max(num_kv_heads, default=metadata.size("attention.head_count")),
        "layer_types": ["full_attention" if each else "conv" for each in num_kv_heads],
        "norm_eps": metadata.number("attention.layer_norm_rms_epsilon"),
        "conv_L_cache": metadata.size("shortconv.l_cache"),
        "conv_bias": False,
        "block_auto_adjust_ff_dim": False,
    }


def lfm2_moe(metadata: GgufMetadata) -> Fields:
    """Return the fields of LFM2 with experts."""
    require_sigmoid(metadata)
    return lfm2(metadata) | {
        "moe_intermediate_size": metadata.width(_DOWN_EXPERTS),
        "num_dense_layers": metadata.count("leading_dense_block_count", 0),
        "num_experts": metadata.size("expert_count"),
        "num_experts_per_tok": metadata.size("expert_used_count"),
        "use_expert_bias": metadata.has("blk.*.exp_probs_b.bias"),
        "norm_topk_prob": True,
        "routed_scaling_factor": metadata.number("expert_weights_scale", 1.0),
    }


def _mamba2(metadata: GgufMetadata) -> Fields:
    """Return the fields of Mamba-2 layers."""
    inner, num_heads = metadata.size("ssm.inner_size"), metadata.size("ssm.time_step_rank")
    if inner % num_heads:
        raise ModelLoadError(f"{metadata.file}: {metadata.kind}.ssm.inner_size must be a multiple of {num_heads}")
    return {
        "mamba_d_state": metadata.size("ssm.state_size"),
        "mamba_d_conv": metadata.size("ssm.conv_kernel"),
        "mamba_n_groups": metadata.size("ssm.group_count"),
        "mamba_n_heads": num_heads,
        "mamba_d_head": inner // num_heads,
        "mamba_conv_bias": metadata.has("blk.*.ssm_conv1d.bias"),
        "mamba_proj_bias": metadata.has("blk.*.ssm_in.bias"),
    }


def mamba2_layers(metadata: GgufMetadata) -> Fields:
    """Return the fields of models with attention in some layers and Mamba-2 in the others."""
    num_kv_heads = metadata.layers("attention.head_count_kv")
    if not num_kv_heads:
        raise ModelLoadError(f"{metadata.file}: {metadata.kind}.attention.head_count_kv must be a list")
    return _mamba2(metadata) | {
        "num_key_value_heads": max(num_kv_heads),
        "layer_types": ["full_attention" if each else "linear_attention" for each in num_kv_heads],
        "position_embedding_type": "rope" if metadata.own("rope.scaling.finetuned", False) else "nope",
    }


def falcon_h1(metadata: GgufMetadata) -> Fields:
    """Return the fields of Falcon-H1. The weights in files already include its multipliers."""
    return _mamba2(metadata) | {
        "mamba_d_ssm": metadata.size("ssm.inner_size"),
        "mamba_rms_norm": metadata.has("blk.*.ssm_norm.weight"),
        "mamba_norm_before_gate": False,
        "projectors_bias": metadata.has("blk.*.ssm_out.bias"),
        "attention_bias": metadata.has("blk.*.attn_q.bias"),
        "mlp_bias": metadata.has("blk.*.ffn_up.bias"),
    }


def _inner_size(metadata: GgufMetadata) -> int:
    """Return the channels of a mixer, a multiple of the hidden size."""
    inner, hidden = metadata.size("ssm.inner_size"), metadata.size("embedding_length")
    if inner % hidden:
        raise ModelLoadError(f"{metadata.file}: {metadata.kind}.ssm.inner_size must be a multiple of {hidden}")
    return inner


def mamba(metadata: GgufMetadata) -> Fields:
    """Return the fields of Mamba, or of Falcon-Mamba if the parameters of steps have norms."""
    inner = _inner_size(metadata)
    fields: Fields = {
        "intermediate_size": inner,
        "expand": inner // metadata.size("embedding_length"),
        "state_size": metadata.size("ssm.state_size"),
        "conv_kernel": metadata.size("ssm.conv_kernel"),
        "time_step_rank": metadata.size("ssm.time_step_rank"),
        "layer_norm_epsilon": metadata.number(_EPSILON),
        "use_conv_bias": metadata.has("blk.*.ssm_conv1d.bias"),
        "use_bias": metadata.has("blk.*.ssm_in.bias"),
    }
    if not metadata.own("ssm.dt_b_c_rms", False):
        return fields
    return fields | {"model_type": "falcon_mamba", "architectures": ["FalconMambaForCausalLM"], "mixer_rms_eps": 1e-6}


def mamba2(metadata: GgufMetadata) -> Fields:
    """Return the fields of Mamba-2."""
    sizes, inner = _mamba2(metadata), _inner_size(metadata)
    return {
        "intermediate_size": inner,
        "expand": inner // metadata.size("embedding_length"),
        "state_size": sizes["mamba_d_state"],
        "conv_kernel": sizes["mamba_d_conv"],
        "n_groups": sizes["mamba_n_groups"],
        "num_heads": sizes["mamba_n_heads"],
        "head_dim": sizes["mamba_d_head"],
        "layer_norm_epsilon": metadata.number(_EPSILON),
        "use_conv_bias": sizes["mamba_conv_bias"],
        "use_bias": sizes["mamba_proj_bias"],
    }


def _period(metadata: GgufMetadata, name: str, layers: list[int]) -> tuple[int, int]:
    """Return the period and the first layer of layers of a kind; they must be regular."""
    num_layers = metadata.size("block_count")
    first = layers[0] if layers else num_layers
    period = layers[1] - first if len(layers) > 1 else num_layers + 1
    if layers != list(range(first, num_layers, period)):
        raise ModelLoadError(f"{metadata.file}: the layers with {name} must have a period")
    return period, first


def jamba(metadata: GgufMetadata) -> Fields:
    """Return the fields of Jamba."""
    num_kv_heads = metadata.each_layer(_KV_HEADS)
    attention = _period(metadata, "attention", [layer for layer, each in enumerate(num_kv_heads) if each])
    routers = [i for i in range(len(num_kv_heads)) if metadata.has(f"blk.{i}.ffn_gate_inp.weight")]
    experts = _period(metadata, "experts", routers)
    return {
        "num_key_value_heads": max(num_kv_heads) or 1,
        "attn_layer_period": attention[0],
        "attn_layer_offset": attention[1],
        "expert_layer_period": experts[0],
        "expert_layer_offset": experts[1],
        "num_experts": metadata.size("expert_count") if routers else 1,
        "num_experts_per_tok": metadata.size("expert_used_count") if routers else 1,
        "mamba_d_state": metadata.size("ssm.state_size"),
        "mamba_d_conv": metadata.size("ssm.conv_kernel"),
        "mamba_expand": _inner_size(metadata) // metadata.size("embedding_length"),
        "mamba_dt_rank": metadata.size("ssm.time_step_rank"),
        "mamba_conv_bias": metadata.has("blk.*.ssm_conv1d.bias"),
        "mamba_proj_bias": metadata.has("blk.*.ssm_in.bias"),
    }


def nemotron_h(metadata: GgufMetadata) -> Fields:
    """Return the fields of Nemotron-H, and of its kind with experts."""
    sizes = _mamba2(metadata)
    num_kv_heads, widths = metadata.each_layer(_KV_HEADS), metadata.each_layer("feed_forward_length")
    routers = [metadata.has(f"blk.{i}.ffn_gate_inp.weight") for i in range(len(widths))]
    kinds = [
        "full_attention" if heads else "linear_attention" if not width else "moe" if has_router else "mlp"
        for heads, width, has_router in zip(num_kv_heads, widths, routers, strict=True)
    ]
    dense = [width for width, kind in zip(widths, kinds, strict=True) if kind == "mlp"]
    fields: Fields = {
        "layers_block_type": kinds,
        "head_dim": head_dim_of(metadata),
        "num_key_value_heads": max(num_kv_heads) or 1,
        "intermediate_size": max(dense, default=1),
        "mlp_hidden_act": "relu2",
        "ssm_state_size": sizes["mamba_d_state"],
        "conv_kernel": sizes["mamba_d_conv"],
        "n_groups": sizes["mamba_n_groups"],
        "mamba_num_heads": sizes["mamba_n_heads"],
        "mamba_head_dim": sizes["mamba_d_head"],
        "use_conv_bias": sizes["mamba_conv_bias"],
        "use_bias": sizes["mamba_proj_bias"],
        "attention_bias": metadata.has("blk.*.attn_q.bias"),
        "mlp_bias": metadata.has("blk.*.ffn_up.bias"),
        "layer_norm_epsilon": metadata.number(_EPSILON),
    }
    if "moe" not in kinds:
        return fields
    return fields | {
        "n_routed_experts": metadata.size("expert_count"),
        "num_experts_per_tok": metadata.size("expert_used_count"),
        "n_shared_experts": metadata.size("expert_shared_count", 1),
        "moe_intermediate_size": metadata.width(_DOWN_EXPERTS),
        "moe_shared_expert_intermediate_size": metadata.width("blk.*.ffn_down_shexp.weight"),
        "moe_latent_size": metadata.optional_size("moe_latent_size"),
        "norm_topk_prob": bool(metadata.own("expert_weights_norm", True)),
        "routed_scaling_factor": metadata.number("expert_weights_scale", 1.0),
        "n_group": metadata.size("expert_group_count", 1),
        "topk_group": metadata.size("expert_group_used_count", 1),
    }
