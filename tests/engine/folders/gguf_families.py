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
from gguf import GGMLQuantizationType as Kind
from numpy.typing import NDArray

from tests.engine.folders import gguf_metadata as metadata
from tests.engine.folders import gguf_tensors as tensors
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


_SHARED = ("moe_intermediate_size", "shared_expert_intermediate_size")
_GRANITE = ("attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling")
_SCALED = {"query_pre_attn_scalar": 16}  # the width of a head
_WHOLE = {"sliding_window": None}
_DELTA_NET: dict[str, Any] = {"norm_addend": 1.0, "plain_norms": ("linear_attn.norm.weight",)}
FAMILIES = {
    "apertus": GgufFamily(
        arch=MODEL_ARCH.APERTUS,
        more=metadata.apertus,
        write_model=metadata.write_curves,
        convert=tensors.without_curves,
    ),
    "arcee": GgufFamily(arch=MODEL_ARCH.ARCEE, permutes=True),
    "arcee, biases": GgufFamily(arch=MODEL_ARCH.ARCEE, permutes=True),
    "cohere": GgufFamily(arch=MODEL_ARCH.COMMAND_R, keys=("logit_scale",)),
    "cohere, head norms": GgufFamily(arch=MODEL_ARCH.COMMAND_R, keys=("logit_scale",)),
    "cohere2": GgufFamily(arch=MODEL_ARCH.COHERE2, keys=("logit_scale", "sliding_window")),
    "deepseek_v2, groups": GgufFamily(
        arch=MODEL_ARCH.DEEPSEEK2,
        more=metadata.deepseek,
        convert=tensors.of_latents,
        written_by_more=("head_count_kv", "key_length"),
    ),
    "deepseek_v3, groups": GgufFamily(
        arch=MODEL_ARCH.DEEPSEEK2,
        more=metadata.deepseek,
        convert=tensors.of_latents,
        written_by_more=("head_count_kv", "key_length"),
    ),
    "deepseek_v3, yarn": GgufFamily(
        arch=MODEL_ARCH.DEEPSEEK2,
        more=metadata.deepseek,
        convert=tensors.of_latents,
        written_by_more=("head_count_kv", "key_length"),
        options={"rope_parameters": families.VARIANTS["deepseek_v3, yarn"]["rope_parameters"] | {"mscale": 0.7}},
    ),
    "ernie4_5_moe": GgufFamily(
        arch=MODEL_ARCH.ERNIE4_5_MOE,
        more=metadata.ernie_moe,
        convert=tensors.with_correction,
        written_by_more=("expert_count", "expert_used_count"),
    ),
    "ernie4_5": GgufFamily(arch=MODEL_ARCH.ERNIE4_5),
    "exaone4": GgufFamily(arch=MODEL_ARCH.EXAONE4, keys=_WINDOW, more=metadata.pattern),
    "falcon_h1, multipliers": GgufFamily(
        arch=MODEL_ARCH.FALCON_H1, more=metadata.falcon_h1, convert=tensors.multiplied
    ),
    "gemma": GgufFamily(arch=MODEL_ARCH.GEMMA, norm_addend=1.0),
    "gemma2": GgufFamily(
        arch=MODEL_ARCH.GEMMA2,
        norm_addend=1.0,
        options=_SCALED,
        keys=("sliding_window", "attn_logit_softcapping", "final_logit_softcapping"),
    ),
    "gemma3_text": GgufFamily(
        arch=MODEL_ARCH.GEMMA3, norm_addend=1.0, keys=_WINDOW, more=metadata.gemma3, options=_SCALED
    ),
    "gemma3_text, capped logits": GgufFamily(
        arch=MODEL_ARCH.GEMMA3,
        norm_addend=1.0,
        keys=("sliding_window", "final_logit_softcapping"),
        more=metadata.gemma3,
        options=_SCALED | {"final_logit_softcapping": 5.0},
    ),
    "glm4": GgufFamily(arch=MODEL_ARCH.GLM4, more=metadata.rotated),
    "glm4_moe": GgufFamily(
        arch=MODEL_ARCH.GLM4_MOE, more=metadata.glm_moe, convert=tensors.of_latents, written_by_more=("block_count",)
    ),
    "glm4_moe, a layer that predicts": GgufFamily(
        arch=MODEL_ARCH.GLM4_MOE,
        more=metadata.glm_moe_with_predictor,
        convert=tensors.of_latents,
        written_by_more=("block_count",),
        options={"routed_scaling_factor": 1.5},
    ),
    "gpt_oss": GgufFamily(arch=MODEL_ARCH.GPT_OSS, keys=_WINDOW, more=metadata.yarn),
    "gpt_oss, plain positions": GgufFamily(
        arch=MODEL_ARCH.GPT_OSS,
        keys=_WINDOW,
        options={"rope_parameters": {"rope_type": "default", "rope_theta": 150_000.0}},
    ),
    "granite": GgufFamily(arch=MODEL_ARCH.GRANITE, permutes=True, keys=_GRANITE),
    "granite, multipliers": GgufFamily(arch=MODEL_ARCH.GRANITE, permutes=True, keys=_GRANITE),
    "granitemoehybrid": GgufFamily(
        arch=MODEL_ARCH.GRANITE_HYBRID,
        permutes=True,
        keys=_GRANITE,
        more=metadata.granite_hybrid,
        convert=tensors.of_mamba2,
        written_by_more=("head_count_kv",),
    ),
    "granitemoehybrid, dense": GgufFamily(
        arch=MODEL_ARCH.GRANITE_HYBRID,
        permutes=True,
        keys=_GRANITE,
        more=metadata.granite_hybrid,
        convert=tensors.of_mamba2,
        written_by_more=("head_count_kv", "expert_count"),
    ),
    "granitemoe": GgufFamily(arch=MODEL_ARCH.GRANITE_MOE, permutes=True, keys=_GRANITE),
    "granitemoeshared": GgufFamily(arch=MODEL_ARCH.GRANITE_MOE, permutes=True, keys=_GRANITE),
    "hunyuan_v1_dense": GgufFamily(arch=MODEL_ARCH.HUNYUAN_DENSE),
    "hunyuan_v1_dense, stretched": GgufFamily(arch=MODEL_ARCH.HUNYUAN_DENSE, more=metadata.stretched),
    "lfm2": GgufFamily(
        arch=MODEL_ARCH.LFM2,
        more=metadata.lfm2,
        written_by_more=("layer_norm_eps", "head_count_kv", "feed_forward_length"),
    ),
    "lfm2_moe": GgufFamily(
        arch=MODEL_ARCH.LFM2MOE,
        more=metadata.lfm2_moe,
        convert=tensors.with_expert_bias,
        written_by_more=("layer_norm_eps", "head_count_kv"),
    ),
    "ministral3, long": GgufFamily(
        arch=MODEL_ARCH.MISTRAL3,
        permutes=True,
        more=metadata.mistral3,
        options=families.VARIANTS["ministral3, long"] | _WHOLE,
    ),
    "mixtral": GgufFamily(arch=MODEL_ARCH.LLAMA, permutes=True, options=_WHOLE),
    "nemotron, biases": GgufFamily(arch=MODEL_ARCH.NEMOTRON, norm_addend=1.0, more=metadata.rotated),
    "olmo2": GgufFamily(arch=MODEL_ARCH.OLMO2),
    "olmo3": GgufFamily(arch=MODEL_ARCH.OLMO2, keys=_WINDOW, more=metadata.pattern),
    "olmoe": GgufFamily(arch=MODEL_ARCH.OLMOE),
    "phi3": GgufFamily(arch=MODEL_ARCH.PHI3, keys=_WINDOW, more=metadata.phi3),
    "qwen2_moe": GgufFamily(arch=MODEL_ARCH.QWEN2MOE, keys=_SHARED),
    "qwen3_5_text": GgufFamily(
        arch=MODEL_ARCH.QWEN35,
        **_DELTA_NET,
        more=metadata.delta_net,
        convert=tensors.tiled,
    ),
    "qwen3_5_text, a layer that predicts": GgufFamily(
        arch=MODEL_ARCH.QWEN35,
        **_DELTA_NET,
        more=metadata.delta_net_with_predictor,
        convert=tensors.tiled,
        written_by_more=("block_count",),
        options={"layer_types": ["full_attention", "linear_attention", "linear_attention", "full_attention"]},
    ),
    "qwen3_5_moe_text": GgufFamily(
        arch=MODEL_ARCH.QWEN35MOE,
        **_DELTA_NET,
        more=metadata.delta_net,
        convert=tensors.tiled,
        keys=_SHARED,
    ),
    "qwen3_next": GgufFamily(
        arch=MODEL_ARCH.QWEN3NEXT,
        **_DELTA_NET,
        more=metadata.delta_net,
        convert=tensors.of_delta_net,
        keys=_SHARED,
        options={"norm_topk_prob": True},
    ),
    "qwen3_moe": GgufFamily(
        arch=MODEL_ARCH.QWEN3MOE, keys=("moe_intermediate_size",), options={"norm_topk_prob": True}
    ),
    "seed_oss, biases": GgufFamily(arch=MODEL_ARCH.SEED_OSS),
    "smollm3": GgufFamily(arch=MODEL_ARCH.SMOLLM3, permutes=True),
    "stablelm, parallel": GgufFamily(arch=MODEL_ARCH.STABLELM, more=metadata.parallel),
    "starcoder2": GgufFamily(arch=MODEL_ARCH.STARCODER2, options=_WHOLE),
}


@cache
def model_of(name: str) -> Any:
    """Return a small random model."""
    kind, _, variant = name.partition(", ")
    options = FAMILIES[name].options
    if variant and not options:
        return families.model_of(name)
    return families.random_model(small(kind, **options))


def write_family(name: str, model: Any, file: Path, quantized: Kind | None = None, **options: bool) -> None:
    """Write a model as `write_file` does."""
    write_file(FAMILIES[name], model, file, quantized, **options)


def write_file(
    family: GgufFamily, model: Any, file: Path, quantized: Kind | None = None, *, fuses_experts: bool = False
) -> None:
    """Write a model; `quantized` is a type of fewer bits for the matrices of layers.

    With `fuses_experts`, the file has gate and up of experts in one tensor.
    """
    config = model.config
    writer = gguf.GGUFWriter(file, gguf.MODEL_ARCH_NAMES[family.arch])
    written = set()
    for name_of, key in [*metadata.USUAL.items(), *((own, metadata.OWN[own]) for own in family.keys)]:
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
    writer.add_token_list(["t", "0", *(f"t{index}" for index in range(config.vocab_size - 2))])
    writer.add_token_merges(["t 0"])
    writer.add_tokenizer_pre("gpt-2")
    named = _named_tensors(model, family)
    for found, array in tensors.with_fused_experts(named) if fuses_experts else named:
        if quantized is not None and array.ndim > 1 and found.startswith("blk.") and array.shape[-1] % 32 == 0:
            blocks = gguf.quantize(array, quantized)
            writer.add_tensor(found, blocks, raw_dtype=quantized)
        else:
            writer.add_tensor(found, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _named_tensors(model: Any, family: GgufFamily) -> Iterator[tuple[str, Array]]:
    """Yield the tensors of a file, by its names."""
    names = gguf.get_tensor_name_map(family.arch, model.config.num_hidden_layers)
    for stored, array in _tensors(model, family):
        found = names.get_name(stored, try_suffixes=(".weight", ".bias"))
        assert found is not None, stored
        yield found, array


def _tensors(model: Any, family: GgufFamily) -> Iterator[tuple[str, Array]]:
    """Yield the tensors that the converter writes, by names that llama.cpp's package knows."""
    config = model.config
    for name, tensor in model.state_dict().items():
        array = tensor.float().numpy()
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if ".experts." in name or "shared_mlp.input_linear" in name:
            yield from tensors.of_experts(name, array, config)
            continue
        if name.endswith("norm.weight") and family.norm_addend and not name.endswith(family.plain_norms or "-"):
            array = array + np.float32(family.norm_addend)
        if family.permutes and "self_attn.q_proj" in name:
            array = tensors.in_pairs(array, config.num_attention_heads)
        if family.permutes and "self_attn.k_proj" in name:
            array = tensors.in_pairs(array, config.num_key_value_heads)
        stored = name.replace("block_sparse_moe.router.weight", "block_sparse_moe.router.layer.weight")
        stored = f"{stored}.weight" if "sinks" in name else stored
        if family.convert is None:
            yield stored, array.squeeze()
        else:
            yield from family.convert(stored, array, config)
