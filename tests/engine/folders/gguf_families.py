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
    written_by_more: tuple[str, ...] = ()  # keys with another meaning than usual
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


_SHARED = ("moe_intermediate_size", "shared_expert_intermediate_size")
_GRANITE = ("attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling")
_SCALED = {"query_pre_attn_scalar": 16}  # the width of a head
_WHOLE = {"sliding_window": None}
FAMILIES = {
    "arcee": GgufFamily(arch=MODEL_ARCH.ARCEE, permutes=True),
    "arcee, biases": GgufFamily(arch=MODEL_ARCH.ARCEE, permutes=True),
    "cohere": GgufFamily(arch=MODEL_ARCH.COMMAND_R, keys=("logit_scale",)),
    "cohere, head norms": GgufFamily(arch=MODEL_ARCH.COMMAND_R, keys=("logit_scale",)),
    "cohere2": GgufFamily(arch=MODEL_ARCH.COHERE2, keys=("logit_scale", "sliding_window")),
    "ernie4_5": GgufFamily(arch=MODEL_ARCH.ERNIE4_5),
    "exaone4": GgufFamily(arch=MODEL_ARCH.EXAONE4, keys=_WINDOW, more=_pattern),
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
    "gpt_oss": GgufFamily(arch=MODEL_ARCH.GPT_OSS, keys=_WINDOW, more=_yarn),
    "granite": GgufFamily(arch=MODEL_ARCH.GRANITE, permutes=True, keys=_GRANITE),
    "granite, multipliers": GgufFamily(arch=MODEL_ARCH.GRANITE, permutes=True, keys=_GRANITE),
    "granitemoe": GgufFamily(arch=MODEL_ARCH.GRANITE_MOE, permutes=True, keys=_GRANITE),
    "granitemoeshared": GgufFamily(arch=MODEL_ARCH.GRANITE_MOE, permutes=True, keys=_GRANITE),
    "hunyuan_v1_dense": GgufFamily(arch=MODEL_ARCH.HUNYUAN_DENSE),
    "lfm2": GgufFamily(
        arch=MODEL_ARCH.LFM2, more=_lfm2, written_by_more=("layer_norm_eps", "head_count_kv", "feed_forward_length")
    ),
    "mixtral": GgufFamily(arch=MODEL_ARCH.LLAMA, permutes=True, options=_WHOLE),
    "nemotron, biases": GgufFamily(arch=MODEL_ARCH.NEMOTRON, norm_addend=1.0, more=_rotated),
    "olmo2": GgufFamily(arch=MODEL_ARCH.OLMO2),
    "olmo3": GgufFamily(arch=MODEL_ARCH.OLMO2, keys=_WINDOW, more=_pattern),
    "olmoe": GgufFamily(arch=MODEL_ARCH.OLMOE),
    "phi3": GgufFamily(arch=MODEL_ARCH.PHI3, keys=_WINDOW, more=_phi3),
    "qwen2_moe": GgufFamily(arch=MODEL_ARCH.QWEN2MOE, keys=_SHARED),
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
        if name.endswith("norm.weight") and family.norm_addend:
            array = array + np.float32(family.norm_addend)
        if family.permutes and "self_attn.q_proj" in name:
            array = _in_pairs(array, config.num_attention_heads)
        if family.permutes and "self_attn.k_proj" in name:
            array = _in_pairs(array, config.num_key_value_heads)
        stored = name.replace("block_sparse_moe.router.weight", "block_sparse_moe.router.layer.weight")
        yield f"{stored}.weight" if "sinks" in name else stored, array.squeeze()


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
