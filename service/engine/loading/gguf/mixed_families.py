"""The config.json fields of GGUF families with latent attention (MLA), gated DeltaNet or sigmoid routing."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from service.engine.loading.gguf.metadata import GgufMetadata, head_dim_of
from service.engine.loading.gguf.rotary import rope_scaling, rotated_share
from service.engine.loading.gguf.windows import windows
from service.engine.models.checkpoint.gguf.names import FACTORS
from service.generation.errors import ModelLoadError

Fields: TypeAlias = dict[str, Any]

_SIGMOID, _SOFTMAX = 2, 1  # how experts are scored
_LOG_MULTIPLIER: Final = "rope.scaling.yarn_log_multiplier"
_TEMPERATURE: Final = "attention.temperature_scale"  # the growth of scores with positions
_DOWN_EXPERTS: Final = "blk.*.ffn_down_exps.weight"
_INTERVAL: Final = 4  # layers from one with attention to the next


def _num_layers(metadata: GgufMetadata) -> int:
    """Return the number of layers, without those that predict further tokens."""
    return metadata.size("block_count") - metadata.count("nextn_predict_layers", 0)


def _routed(metadata: GgufMetadata) -> Fields:
    """Return the fields of DeepSeek's experts."""
    return {
        "num_hidden_layers": _num_layers(metadata),
        "n_routed_experts": metadata.size("expert_count"),
        "num_experts_per_tok": metadata.size("expert_used_count"),
        "n_shared_experts": metadata.size("expert_shared_count"),
        "moe_intermediate_size": metadata.width(_DOWN_EXPERTS),
        "first_k_dense_replace": metadata.count("leading_dense_block_count", 0),
        "norm_topk_prob": bool(metadata.own("expert_weights_norm", False)),
        "routed_scaling_factor": metadata.number("expert_weights_scale", 1.0),
        "n_group": metadata.size("expert_group_count", 1),
        "topk_group": metadata.size("expert_group_used_count", 1),
    }


def require_sigmoid(metadata: GgufMetadata) -> None:
    """Raise ModelLoadError if experts are scored in another way."""
    if metadata.own("expert_gating_func", _SIGMOID) != _SIGMOID:
        raise ModelLoadError(f"{metadata.file}: {metadata.kind}.expert_gating_func must be {_SIGMOID}")


def glm_moe(metadata: GgufMetadata) -> Fields:
    """Return the fields of GLM-4.5."""
    require_sigmoid(metadata)
    return _routed(metadata) | {
        "attention_bias": metadata.has("blk.*.attn_q.bias"),
        "use_qk_norm": metadata.has("blk.*.attn_q_norm.weight"),
        "partial_rotary_factor": rotated_share(metadata, head_dim_of(metadata)),
    }


def dots1(metadata: GgufMetadata) -> Fields:
    """Return the fields of dots.llm1."""
    require_sigmoid(metadata)
    return _routed(metadata) | {"attention_bias": metadata.has("blk.*.attn_q.bias"), "sliding_window": None}


def exaone_moe(metadata: GgufMetadata) -> Fields:
    """Return the fields of EXAONE with experts. Layers without a router are dense."""
    require_sigmoid(metadata)
    fields = _routed(metadata)
    num_layers = fields["num_hidden_layers"]
    fields |= {
        "num_experts": fields.pop("n_routed_experts"),
        "num_shared_experts": fields.pop("n_shared_experts"),
        "mlp_layer_types": [
            "sparse" if metadata.has(f"blk.{i}.ffn_gate_inp.weight") else "dense" for i in range(num_layers)
        ],
    }
    attention = windows(metadata, _INTERVAL)
    return fields | attention | {"layer_types": attention["layer_types"][:num_layers]}


def deepseek(metadata: GgufMetadata) -> Fields:
    """Return the fields of DeepSeek-V2, V3, and their relatives."""
    if metadata.own(_TEMPERATURE, 0):
        raise ModelLoadError(f"{metadata.file}: {metadata.kind}.{_TEMPERATURE} is not supported")
    scores = metadata.own("expert_gating_func", _SOFTMAX)
    if scores not in {_SOFTMAX, _SIGMOID}:
        raise ModelLoadError(f"{metadata.file}: {metadata.kind}.expert_gating_func must be {_SOFTMAX} or {_SIGMOID}")
    rotated, rank = metadata.size("rope.dimension_count"), metadata.size("attention.kv_lora_rank")
    key_dim = metadata.size("attention.key_length_mla", metadata.size("attention.key_length")) - rotated
    if key_dim < 1:
        raise ModelLoadError(f"{metadata.file}: {metadata.kind}.rope.dimension_count is too large for its keys")
    fields = _routed(metadata) | {
        "num_key_value_heads": metadata.size("attention.head_count"),
        "head_dim": rotated,
        "kv_lora_rank": rank,
        "q_lora_rank": metadata.optional_size("attention.q_lora_rank"),
        "qk_nope_head_dim": key_dim,
        "qk_rope_head_dim": rotated,
        "v_head_dim": metadata.size("attention.value_length_mla", metadata.size("attention.value_length", rank)),
        "attention_bias": metadata.has("blk.*.attn_q_a.bias"),
    }
    scaling = rope_scaling(metadata, metadata.number("rope.freq_base", 10_000.0), rotated)
    if scaling is not None and metadata.own(_LOG_MULTIPLIER, 0):
        weight = 10 * metadata.number(_LOG_MULTIPLIER)  # files of this architecture have a tenth
        fields["rope_scaling"] = scaling | {"mscale": weight, "mscale_all_dim": weight}
    if scores == _SIGMOID:
        return fields
    method = "group_limited_greedy" if fields["n_group"] > 1 else "greedy"
    return fields | {
        "model_type": "deepseek_v2", "architectures": ["DeepseekV2ForCausalLM"], "topk_method": method,
    }  # fmt: skip


def ernie_moe(metadata: GgufMetadata) -> Fields:
    """Return the fields of ERNIE 4.5 with experts."""
    return {
        "use_bias": metadata.has("blk.*.attn_q.bias"),
        "moe_num_experts": metadata.size("expert_count"),
        "moe_k": metadata.size("expert_used_count"),
        "moe_num_shared_experts": metadata.count("expert_shared_count", 0),
        "moe_intermediate_size": metadata.width(_DOWN_EXPERTS),
        "moe_layer_interval": metadata.size("interleave_moe_layer_step", 1),
        "moe_layer_start_index": metadata.count("leading_dense_block_count", 0),
        "moe_layer_end_index": metadata.size("block_count") - 1,
    }


def apertus(metadata: GgufMetadata) -> Fields:
    """Return the fields of Apertus. Its RoPE is scaled if the file has factors."""
    fields: Fields = {"hidden_act": "xielu", "attention_bias": metadata.has("blk.*.attn_q.bias")}
    return fields if metadata.has(FACTORS) else fields | {"rope_scaling": {"rope_type": "default"}}


def mistral3(metadata: GgufMetadata) -> Fields:
    """Return the fields of Ministral 3, or of Mistral Small 3 if positions are not scaled."""
    scaling = rope_scaling(metadata, metadata.number("rope.freq_base", 10_000.0), head_dim_of(metadata))
    if scaling is None:
        return {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": None}
    growth = metadata.own(_TEMPERATURE, 0)
    weight = metadata.own(_LOG_MULTIPLIER, 0)
    return {
        "rope_scaling": scaling
        | {
            "mscale": 1.0,
            "mscale_all_dim": metadata.number(_LOG_MULTIPLIER) if weight else 0.0,
            "llama_4_scaling_beta": metadata.number(_TEMPERATURE) if growth else 0.0,
        }
    }


def minicpm3(metadata: GgufMetadata) -> Fields:
    """Return the fields of MiniCPM3. Files lack the multipliers, which are those of its only size."""
    rotated, key_dim = metadata.size("rope.dimension_count"), metadata.size("attention.key_length")
    if rotated >= key_dim:
        raise ModelLoadError(f"{metadata.file}: {metadata.kind}.rope.dimension_count is too large for its keys")
    usual_width = metadata.size("embedding_length") // metadata.size("attention.head_count")
    return {
        "head_dim": rotated,
        "kv_lora_rank": metadata.size("attention.kv_lora_rank"),
        "q_lora_rank": metadata.optional_size("attention.q_lora_rank"),
        "qk_nope_head_dim": key_dim - rotated,
        "qk_rope_head_dim": rotated,
        "v_head_dim": metadata.size("attention.value_length", usual_width),
        "attention_bias": metadata.has("blk.*.attn_q_a.bias"),
        "original_max_position_embeddings": metadata.size("context_length"),
        "scale_emb": 12,
        "scale_depth": 1.4,
        "dim_model_base": 256,
    }


def _mixer_kinds(metadata: GgufMetadata) -> list[str]:
    """Return the kind of each layer's mixer: by the file's list, or attention in each layer of an interval."""
    recurs = metadata.layers("attention.recurrent_layers")
    if recurs is None:
        interval = metadata.size("full_attention_interval", _INTERVAL)
        recurs = [(layer + 1) % interval for layer in range(metadata.size("block_count"))]
    return ["linear_attention" if each else "full_attention" for each in recurs[: _num_layers(metadata)]]


def qwen35(metadata: GgufMetadata) -> Fields:
    """Return the fields of Qwen3.5."""
    num_heads, inner = metadata.size("ssm.time_step_rank"), metadata.size("ssm.inner_size")
    if inner % num_heads:
        raise ModelLoadError(f"{metadata.file}: {metadata.kind}.ssm.inner_size must be a multiple of {num_heads}")
    kinds = _mixer_kinds(metadata)
    return {
        "num_hidden_layers": len(kinds),
        "layer_types": kinds,
        "linear_conv_kernel_dim": metadata.size("ssm.conv_kernel"),
        "linear_key_head_dim": metadata.size("ssm.state_size"),
        "linear_num_key_heads": metadata.size("ssm.group_count"),
        "linear_num_value_heads": num_heads,
        "linear_value_head_dim": inner // num_heads,
        "partial_rotary_factor": rotated_share(metadata, head_dim_of(metadata)),
        "attention_bias": metadata.has("blk.*.attn_q.bias"),
    }


def qwen3_next(metadata: GgufMetadata) -> Fields:
    """Return the fields of Qwen3-Next, and of Qwen3.5 with experts."""
    return qwen35(metadata) | {
        "num_experts": metadata.size("expert_count"),
        "num_experts_per_tok": metadata.size("expert_used_count"),
        "moe_intermediate_size": metadata.width(_DOWN_EXPERTS),
        "shared_expert_intermediate_size": metadata.width("blk.*.ffn_down_shexp.weight"),
        "intermediate_size": metadata.size("feed_forward_length", metadata.width(_DOWN_EXPERTS)),  # of no layer
        "norm_topk_prob": True,
    }
