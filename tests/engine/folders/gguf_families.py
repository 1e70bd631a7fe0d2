"""GGUF files of tiny random models of many families, written as llama.cpp's own converter does.

The names of tensors are those of llama.cpp's package, and the keys those of its converter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import MODEL_ARCH
from numpy.typing import NDArray

from tests.models import families
from tests.models.shapes import small

Array = NDArray[Any]
_WINDOW = ("sliding_window",)


@dataclass(frozen=True, kw_only=True)
class GgufFamily:
    """What the converter does for one of the models of `tests.models.families`."""

    arch: MODEL_ARCH
    keys: tuple[str, ...] = ()  # fields of the configuration that are written beyond the usual ones
    permutes: bool = False
    norm_addend: float = 0.0
    more: Callable[[gguf.GGUFWriter, Any], None] = lambda _, __: None
    write_model: Callable[[gguf.GGUFWriter, Any], None] = lambda _, __: None  # what the weights say beyond tensors
    written_by_more: tuple[str, ...] = ()  # keys with another meaning than usual
    convert: Callable[[str, Array, Any], Iterator[tuple[str, Array]]] | None = None  # a tensor to those of the file
    plain_norms: tuple[str, ...] = ()  # the ends of names of norms without `norm_addend`
    options: dict[str, Any] = field(default_factory=dict)  # of the small model, where files imply other ones


def _pattern(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])


def _rotated(writer: gguf.GGUFWriter, config: Any) -> None:
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_rope_dimension_count(int(head_dim * config.rope_parameters["partial_rotary_factor"]))


def _phi3(writer: gguf.GGUFWriter, config: Any) -> None:
    rope = config.rope_parameters
    writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    for name in ("long", "short"):
        writer.add_tensor(f"rope_factors_{name}.weight", np.array(rope[f"{name}_factor"], np.float32))


def _gemma3(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    _pattern(writer, config)


def _yarn(writer: gguf.GGUFWriter, config: Any) -> None:
    rope = config.rope_parameters
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if "beta_fast" in rope:
        writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])


def _lfm2(writer: gguf.GGUFWriter, config: Any) -> None:
    kinds, width = config.layer_types, int(2 * config.intermediate_size / 3)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    multiple = config.block_multiple_of
    writer.add_feed_forward_length(-(-int(config.block_ffn_dim_multiplier * width) // multiple) * multiple)
    writer.add_head_count_kv([config.num_key_value_heads if kind == "full_attention" else 0 for kind in kinds])
    writer.add_shortconv_l_cache(config.conv_L_cache)


def _parallel(writer: gguf.GGUFWriter, config: Any) -> None:
    _rotated(writer, config)
    writer.add_parallel_residual(config.use_parallel_residual)


def _routed(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_leading_dense_block_count(config.first_k_dense_replace)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_weights_norm(getattr(config, "norm_topk_prob", False))
    if config.n_group is not None:
        writer.add_expert_group_count(config.n_group)
        writer.add_expert_group_used_count(config.topk_group)


def _glm_moe(writer: gguf.GGUFWriter, config: Any) -> None:
    _routed(writer, config)
    _rotated(writer, config)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_block_count(config.num_hidden_layers + 1)
    writer.add_nextn_predict_layers(1)
    for name, shape in (("enorm", (7,)), ("eh_proj", (7, 14))):  # of a layer that isn't computed
        writer.add_tensor(f"blk.{config.num_hidden_layers}.nextn.{name}.weight", np.ones(shape, np.float32))


def _deepseek(writer: gguf.GGUFWriter, config: Any) -> None:
    _routed(writer, config)
    is_v3 = config.model_type == "deepseek_v3"
    if is_v3:
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
        _yarn(writer, config)
        writer.add_rope_scaling_yarn_log_mul(0.1 * config.rope_parameters["mscale_all_dim"])


def _of_latents(name: str, array: Array, config: Any) -> Iterator[tuple[str, Array]]:
    name = name.replace("e_score_correction_bias", "e_score_correction.bias")
    if "kv_b_proj" not in name:
        yield name, array.squeeze()
        return
    rows = array.reshape(config.num_attention_heads, config.qk_nope_head_dim + config.v_head_dim, -1)
    keys, values = rows[:, : config.qk_nope_head_dim], rows[:, config.qk_nope_head_dim :]
    yield name.replace("kv_b_proj", "k_b_proj"), np.ascontiguousarray(keys.swapaxes(1, 2))
    yield name.replace("kv_b_proj", "v_b_proj"), np.ascontiguousarray(values)


def _with_correction(name: str, array: Array, _: Any) -> Iterator[tuple[str, Array]]:
    name = name.replace("mlp.gate.moe_statics", "mlp.moe_statics")
    yield name.replace("e_score_correction_bias", "e_score_correction.bias"), array.squeeze()


def _ernie_moe(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_expert_count(config.moe_num_experts)
    writer.add_expert_used_count(config.moe_k)
    writer.add_interleave_moe_layer_step(config.moe_layer_interval)
    writer.add_leading_dense_block_count(config.moe_layer_start_index)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_shared_count(config.moe_num_shared_experts)


def _mistral3(writer: gguf.GGUFWriter, config: Any) -> None:
    rope = config.rope_parameters
    _yarn(writer, config)
    writer.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
    writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])


def _apertus(writer: gguf.GGUFWriter, config: Any) -> None:
    rope, dim = config.rope_parameters, config.hidden_size // config.num_attention_heads
    lengths = 2 * np.pi * rope["rope_theta"] ** (np.arange(0, dim, 2) / dim)
    original, low, high = (
        rope[name] for name in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
    )
    smooth = np.clip((original / lengths - low) / (high - low), 0, 1)
    writer.add_tensor("rope_freqs.weight", (1 / ((1 - smooth) / rope["factor"] + smooth)).astype(np.float32))


def _without_curves(name: str, array: Array, _: Any) -> Iterator[tuple[str, Array]]:
    if ".act_fn." not in name:
        yield name, array.squeeze()


def _write_curves(writer: gguf.GGUFWriter, model: Any) -> None:
    state = model.state_dict()
    for own in ("alpha_p", "alpha_n", "beta", "eps"):
        numbers = [
            float(state[f"model.layers.{layer}.mlp.act_fn.{own}"]) for layer in range(model.config.num_hidden_layers)
        ]
        getattr(writer, f"add_xielu_{own}")(numbers)


def _ssm(writer: gguf.GGUFWriter, *sizes: int) -> None:
    taps, state, groups, heads, inner = sizes
    writer.add_ssm_conv_kernel(taps)
    writer.add_ssm_state_size(state)
    writer.add_ssm_group_count(groups)
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_inner_size(inner)


def _falcon_h1(writer: gguf.GGUFWriter, config: Any) -> None:
    _ssm(
        writer,
        *(config.mamba_d_conv, config.mamba_d_state, config.mamba_n_groups, config.mamba_n_heads, config.mamba_d_ssm),
    )


def _multiplied(name: str, array: Array, config: Any) -> Iterator[tuple[str, Array]]:
    """Yield a tensor of Falcon-H1, in which files have the multipliers."""
    given = config.attention_in_multiplier
    factors = {
        "down_proj": config.mlp_multipliers[1],
        "gate_proj": config.mlp_multipliers[0],
        "k_proj": config.key_multiplier * given,
        "q_proj": given,
        "v_proj": given,
        "o_proj": config.attention_out_multiplier,
        "out_proj": config.ssm_out_multiplier,
        "lm_head": config.lm_head_multiplier,
        "embed_tokens": config.embedding_multiplier,
    }
    module = name.split(".")[-2]
    if module == "in_proj":
        inner, states = config.mamba_d_ssm, config.mamba_n_groups * config.mamba_d_state
        widths = [inner, inner, states, states, len(array) - 2 * inner - 2 * states]
        array = array * config.ssm_in_multiplier * np.repeat(config.ssm_multipliers, widths)[:, None]
    elif "mamba.norm" in name:
        array = array.reshape(config.mamba_n_groups, -1)
    array = array * factors.get(module, 1.0)
    array = array.squeeze()
    if name.endswith("A_log"):
        array = -np.exp(array)
    if name.endswith(("A_log", ".D")):
        array = array[:, None]
    yield name.replace(".dt_bias", ".dt_proj.bias"), array.astype(np.float32)


def _delta_net(writer: gguf.GGUFWriter, config: Any) -> None:
    heads = config.linear_num_value_heads
    inner = config.linear_value_head_dim * heads
    _ssm(writer, config.linear_conv_kernel_dim, config.linear_key_head_dim, config.linear_num_key_heads, heads, inner)
    writer.add_full_attention_interval(config.layer_types.index("full_attention") + 1)
    _rotated(writer, config)


def _of_delta_net(name: str, array: Array, config: Any) -> Iterator[tuple[str, Array]]:
    """Yield a tensor of Qwen3-Next; queries, keys, values and gates are no longer together by key head."""
    if name.endswith("A_log"):
        array = -np.exp(array)
    if "in_proj_qkvz" not in name:
        yield name.replace(".dt_bias", ".dt_proj.bias"), array.squeeze()
        return
    keys, each = config.linear_num_key_heads, config.linear_key_head_dim
    values = config.linear_num_value_heads // keys * config.linear_value_head_dim
    parts = np.split(array.reshape(keys, -1, array.shape[-1]), np.cumsum([each, each, values]), axis=1)
    flat = [part.reshape(-1, array.shape[-1]) for part in parts]
    yield name.replace("in_proj_qkvz", "in_proj_qkv"), np.concatenate(flat[:3])
    yield name.replace("in_proj_qkvz", "in_proj_z"), flat[3]


def _tiled(name: str, array: Array, config: Any) -> Iterator[tuple[str, Array]]:
    """Yield a tensor of Qwen3.5, whose value heads are in turns those of all key heads."""
    keys, width = config.linear_num_key_heads, config.linear_value_head_dim

    def in_turns(rows: Array, each: int) -> Array:
        return rows.reshape(keys, -1, each, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)

    module = name.partition(".linear_attn.")[2].removesuffix(".weight")
    array = array.squeeze()
    if module in {"in_proj_qkv", "conv1d"}:
        first = 2 * keys * config.linear_key_head_dim
        array = np.concatenate([array[:first], in_turns(array[first:], width)])
    elif module == "in_proj_z":
        array = in_turns(array, width)
    elif module == "out_proj":
        array = in_turns(array.T, width).T
    elif module in {"in_proj_a", "in_proj_b", "A_log", "dt_bias"}:
        array = in_turns(array, 1)
    yield from _of_delta_net(name, array, config)


_SHARED = ("moe_intermediate_size", "shared_expert_intermediate_size")
_GRANITE = ("attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling")
_SCALED = {"query_pre_attn_scalar": 16}  # the width of a head
_WHOLE = {"sliding_window": None}
FAMILIES = {
    "apertus": GgufFamily(arch=MODEL_ARCH.APERTUS, more=_apertus, write_model=_write_curves, convert=_without_curves),
    "arcee": GgufFamily(arch=MODEL_ARCH.ARCEE, permutes=True),
    "arcee, biases": GgufFamily(arch=MODEL_ARCH.ARCEE, permutes=True),
    "cohere": GgufFamily(arch=MODEL_ARCH.COMMAND_R, keys=("logit_scale",)),
    "cohere, head norms": GgufFamily(arch=MODEL_ARCH.COMMAND_R, keys=("logit_scale",)),
    "cohere2": GgufFamily(arch=MODEL_ARCH.COHERE2, keys=("logit_scale", "sliding_window")),
    "deepseek_v2, groups": GgufFamily(
        arch=MODEL_ARCH.DEEPSEEK2, more=_deepseek, convert=_of_latents, written_by_more=("head_count_kv", "key_length")
    ),
    "deepseek_v3, groups": GgufFamily(
        arch=MODEL_ARCH.DEEPSEEK2, more=_deepseek, convert=_of_latents, written_by_more=("head_count_kv", "key_length")
    ),
    "deepseek_v3, yarn": GgufFamily(
        arch=MODEL_ARCH.DEEPSEEK2,
        more=_deepseek,
        convert=_of_latents,
        written_by_more=("head_count_kv", "key_length"),
        options={"rope_parameters": families.VARIANTS["deepseek_v3, yarn"]["rope_parameters"] | {"mscale": 0.7}},
    ),
    "ernie4_5_moe": GgufFamily(
        arch=MODEL_ARCH.ERNIE4_5_MOE,
        more=_ernie_moe,
        convert=_with_correction,
        written_by_more=("expert_count", "expert_used_count"),
    ),
    "ernie4_5": GgufFamily(arch=MODEL_ARCH.ERNIE4_5),
    "exaone4": GgufFamily(arch=MODEL_ARCH.EXAONE4, keys=_WINDOW, more=_pattern),
    "falcon_h1, multipliers": GgufFamily(arch=MODEL_ARCH.FALCON_H1, more=_falcon_h1, convert=_multiplied),
    "gemma": GgufFamily(arch=MODEL_ARCH.GEMMA, norm_addend=1.0),
    "gemma2": GgufFamily(
        arch=MODEL_ARCH.GEMMA2,
        norm_addend=1.0,
        options=_SCALED,
        keys=("sliding_window", "attn_logit_softcapping", "final_logit_softcapping"),
    ),
    "gemma3_text": GgufFamily(arch=MODEL_ARCH.GEMMA3, norm_addend=1.0, keys=_WINDOW, more=_gemma3, options=_SCALED),
    "gemma3_text, capped logits": GgufFamily(
        arch=MODEL_ARCH.GEMMA3,
        norm_addend=1.0,
        keys=("sliding_window", "final_logit_softcapping"),
        more=_gemma3,
        options=_SCALED | {"final_logit_softcapping": 5.0},
    ),
    "glm4": GgufFamily(arch=MODEL_ARCH.GLM4, more=_rotated),
    "glm4_moe": GgufFamily(
        arch=MODEL_ARCH.GLM4_MOE, more=_glm_moe, convert=_of_latents, written_by_more=("block_count",)
    ),
    "gpt_oss": GgufFamily(arch=MODEL_ARCH.GPT_OSS, keys=_WINDOW, more=_yarn),
    "granite": GgufFamily(arch=MODEL_ARCH.GRANITE, permutes=True, keys=_GRANITE),
    "granite, multipliers": GgufFamily(arch=MODEL_ARCH.GRANITE, permutes=True, keys=_GRANITE),
    "granitemoe": GgufFamily(arch=MODEL_ARCH.GRANITE_MOE, permutes=True, keys=_GRANITE),
    "granitemoeshared": GgufFamily(arch=MODEL_ARCH.GRANITE_MOE, permutes=True, keys=_GRANITE),
    "hunyuan_v1_dense": GgufFamily(arch=MODEL_ARCH.HUNYUAN_DENSE),
    "lfm2": GgufFamily(
        arch=MODEL_ARCH.LFM2, more=_lfm2, written_by_more=("layer_norm_eps", "head_count_kv", "feed_forward_length")
    ),
    "ministral3, long": GgufFamily(
        arch=MODEL_ARCH.MISTRAL3,
        permutes=True,
        more=_mistral3,
        options=families.VARIANTS["ministral3, long"] | _WHOLE,
    ),
    "mixtral": GgufFamily(arch=MODEL_ARCH.LLAMA, permutes=True, options=_WHOLE),
    "nemotron, biases": GgufFamily(arch=MODEL_ARCH.NEMOTRON, norm_addend=1.0, more=_rotated),
    "olmo2": GgufFamily(arch=MODEL_ARCH.OLMO2),
    "olmo3": GgufFamily(arch=MODEL_ARCH.OLMO2, keys=_WINDOW, more=_pattern),
    "olmoe": GgufFamily(arch=MODEL_ARCH.OLMOE),
    "phi3": GgufFamily(arch=MODEL_ARCH.PHI3, keys=_WINDOW, more=_phi3),
    "qwen2_moe": GgufFamily(arch=MODEL_ARCH.QWEN2MOE, keys=_SHARED),
    "qwen3_5_text": GgufFamily(
        arch=MODEL_ARCH.QWEN35,
        norm_addend=1.0,
        plain_norms=("linear_attn.norm.weight",),
        more=_delta_net,
        convert=_tiled,
    ),
    "qwen3_next": GgufFamily(
        arch=MODEL_ARCH.QWEN3NEXT,
        norm_addend=1.0,
        plain_norms=("linear_attn.norm.weight",),
        more=_delta_net,
        convert=_of_delta_net,
        keys=_SHARED,
        options={"norm_topk_prob": True},
    ),
    "qwen3_moe": GgufFamily(
        arch=MODEL_ARCH.QWEN3MOE, keys=("moe_intermediate_size",), options={"norm_topk_prob": True}
    ),
    "seed_oss, biases": GgufFamily(arch=MODEL_ARCH.SEED_OSS),
    "smollm3": GgufFamily(arch=MODEL_ARCH.SMOLLM3, permutes=True),
    "stablelm, parallel": GgufFamily(arch=MODEL_ARCH.STABLELM, more=_parallel),
    "starcoder2": GgufFamily(arch=MODEL_ARCH.STARCODER2, options=_WHOLE),
}
_USUAL = {
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
    "layer_norm_eps": "layer_norm_eps",
    "num_local_experts": "expert_count",
    "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
}
_OWN = {
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


@cache
def model_of(name: str) -> Any:
    """Return a small random model."""
    kind, _, variant = name.partition(", ")
    options = FAMILIES[name].options
    if variant and not options:
        return families.model_of(name)
    return families.random_model(small(kind, **options))


def write_family(name: str, model: Any, file: Path, quantized: gguf.GGMLQuantizationType | None = None) -> None:
    """Write a model; `quantized` is a type of fewer bits for the matrices of layers."""
    family, config = FAMILIES[name], model.config
    writer = gguf.GGUFWriter(file, gguf.MODEL_ARCH_NAMES[family.arch])
    written = set()
    for name_of, key in [*_USUAL.items(), *((own, _OWN[own]) for own in family.keys)]:
        value = getattr(config, name_of, None)
        if value is None or key in written or key in family.written_by_more:
            continue
        written.add(key)
        getattr(writer, f"add_{key}")(value)
    ropes = config.rope_parameters
    writer.add_rope_freq_base(ropes.get("full_attention", ropes)["rope_theta"])
    family.more(writer, config)
    family.write_model(writer, model)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"t{index}" for index in range(config.vocab_size)])
    names = gguf.get_tensor_name_map(family.arch, config.num_hidden_layers)
    for stored, array in _tensors(model, family):
        found = names.get_name(stored, try_suffixes=(".weight", ".bias"))
        assert found is not None, stored
        if quantized is not None and array.ndim > 1 and found.startswith("blk.") and array.shape[-1] % 32 == 0:
            blocks = gguf.quantize(array, quantized)
            writer.add_tensor(found, blocks, raw_dtype=quantized)
        else:
            writer.add_tensor(found, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _tensors(model: Any, family: GgufFamily) -> Iterator[tuple[str, Array]]:
    """Yield the tensors that the converter writes, by names that llama.cpp's package knows."""
    config = model.config
    for name, tensor in model.state_dict().items():
        array = tensor.float().numpy()
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if ".experts." in name or "shared_mlp.input_linear" in name:
            yield from _of_experts(name, array, config)
            continue
        if name.endswith("norm.weight") and family.norm_addend and not name.endswith(family.plain_norms or "-"):
            array = array + np.float32(family.norm_addend)
        if family.permutes and "self_attn.q_proj" in name:
            array = _in_pairs(array, config.num_attention_heads)
        if family.permutes and "self_attn.k_proj" in name:
            array = _in_pairs(array, config.num_key_value_heads)
        stored = name.replace("block_sparse_moe.router.weight", "block_sparse_moe.router.layer.weight")
        stored = f"{stored}.weight" if "sinks" in name else stored
        if family.convert is None:
            yield stored, array.squeeze()
        else:
            yield from family.convert(stored, array, config)


def _of_experts(name: str, array: Array, config: Any) -> Iterator[tuple[str, Array]]:
    """Yield gate and up separately, with the rows of outputs first."""
    stem, is_bias = name.removesuffix(".weight").removesuffix("_bias"), name.endswith("_bias")
    end = ".bias" if is_bias else ".weight"
    if config.model_type == "gpt_oss" and not is_bias:
        array = array.swapaxes(-1, -2)
    if "gate_up_proj" not in stem and "input_linear" not in stem:
        yield stem.replace("block_sparse_moe.experts", "mlp.experts") + end, array
        return
    axis = array.ndim - 1 if is_bias else array.ndim - 2
    if config.model_type == "gpt_oss":
        parts = [np.take(array, range(first, array.shape[axis], 2), axis) for first in (0, 1)]
    else:
        parts = np.split(array, 2, axis)
    where = "model.layers.{}.mlp.shared_expert" if "shared_mlp" in stem else "model.layers.{}.mlp.experts"
    base = where.format(stem.split(".")[2])
    yield f"{base}.gate_proj{end}", parts[0]
    yield f"{base}.up_proj{end}", parts[1]


def _in_pairs(weight: Array, num_heads: int) -> Array:
    """Return rows in the order in which the two halves of each head alternate."""
    return weight.reshape(num_heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)
