"""GGUF files of tiny random models of many families, written as llama.cpp's own converter does.

The names of tensors are those of llama.cpp's package, and the keys those of its converter.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from gguf import MODEL_ARCH
from gguf import GGMLQuantizationType as Kind

from tests.engine.folders import gguf_metadata as metadata
from tests.engine.folders import gguf_recurrent_metadata as recurrent
from tests.engine.folders import gguf_tensors as tensors
from tests.engine.folders.gguf_llamas import LLAMAS
from tests.engine.folders.gguf_writer import GgufFamily, write_file
from tests.models import families
from tests.models.shapes import small

_WINDOW = ("sliding_window",)
_SHARED = ("moe_intermediate_size", "shared_expert_intermediate_size")
_GRANITE = ("attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling")
_SCALED = {"query_pre_attn_scalar": 16}  # the width of a head
_WHOLE = {"sliding_window": None}
_DELTA_NET: dict[str, Any] = {"norm_addend": 1.0, "plain_norms": ("linear_attn.norm.weight",)}
_MAMBA: dict[str, Any] = {
    "more": recurrent.mamba,
    "convert": tensors.of_mamba,
    "written_by_more": ("context_length", "feed_forward_length", "head_count", "head_count_kv", "key_length"),
}
_NEMOTRON_H: dict[str, Any] = {
    "more": recurrent.nemotron_h,
    "convert": tensors.of_mamba,
    "written_by_more": ("head_count_kv", "feed_forward_length", "expert_count"),
}
_GEMMA4: dict[str, Any] = {
    "more": metadata.gemma4,
    "convert": tensors.of_gemma4,
    "keys": ("sliding_window", "final_logit_softcapping"),
    "written_by_more": ("head_count_kv", "feed_forward_length", "key_length", "expert_count"),
}
_FALCON: dict[str, Any] = {
    "more": metadata.falcon,
    "convert": tensors.ungrouped,
    "written_by_more": ("context_length", "head_count_kv", "feed_forward_length", "key_length"),
}
_DEEPSEEK: dict[str, Any] = {
    "arch": MODEL_ARCH.DEEPSEEK2,
    "more": metadata.deepseek,
    "convert": tensors.of_latents,
    "written_by_more": ("head_count_kv", "key_length"),
}
_FOURFOLD = {"ffn_hidden_size": 4 * 64}
_MINICPM3: dict[str, Any] = {
    "more": metadata.minicpm3,
    "written_by_more": ("key_length",),
    "options": {"v_head_dim": 16},  # the width of a head
}
_LONG = {
    "rope_theta": 10_000.0,
    "rope_type": "longrope",
    "short_factor": [1.0, 1.1, 1.2, 1.3],
    "long_factor": [1.0, 2.0, 3.0, 4.0],
    "original_max_position_embeddings": 128,
}
FAMILIES = {
    "apertus": GgufFamily(
        arch=MODEL_ARCH.APERTUS,
        more=metadata.apertus,
        write_model=metadata.write_curves,
        convert=tensors.without_curves,
    ),
    "arcee": GgufFamily(arch=MODEL_ARCH.ARCEE, permutes=True),
    "arcee, biases": GgufFamily(arch=MODEL_ARCH.ARCEE, permutes=True),
    "bitnet": GgufFamily(
        arch=MODEL_ARCH.BITNET,
        more=metadata.bitnet,
        convert=tensors.of_bitnet,
        options={"hidden_act": "silu", "tie_word_embeddings": True},
    ),
    "cohere": GgufFamily(arch=MODEL_ARCH.COMMAND_R, keys=("logit_scale",)),
    "cohere, head norms": GgufFamily(arch=MODEL_ARCH.COMMAND_R, keys=("logit_scale",)),
    "cohere2": GgufFamily(arch=MODEL_ARCH.COHERE2, keys=("logit_scale", "sliding_window")),
    "deepseek_v2, groups": GgufFamily(**_DEEPSEEK),
    "deepseek_v3, groups": GgufFamily(**_DEEPSEEK),
    "deepseek_v3, yarn": GgufFamily(
        **_DEEPSEEK,
        options={"rope_parameters": families.VARIANTS["deepseek_v3, yarn"]["rope_parameters"] | {"mscale": 0.7}},
    ),
    "dots1": GgufFamily(
        arch=MODEL_ARCH.DOTS1, more=metadata.dots1, convert=tensors.of_latents, options=_WHOLE | {"n_shared_experts": 1}
    ),
    "ernie4_5_moe": GgufFamily(
        arch=MODEL_ARCH.ERNIE4_5_MOE,
        more=metadata.ernie_moe,
        convert=tensors.with_correction,
        written_by_more=("expert_count", "expert_used_count"),
    ),
    "ernie4_5": GgufFamily(arch=MODEL_ARCH.ERNIE4_5),
    "exaone_moe": GgufFamily(
        arch=MODEL_ARCH.EXAONE_MOE, keys=_WINDOW, more=metadata.exaone_moe, convert=tensors.of_exaone_moe
    ),
    "exaone4": GgufFamily(arch=MODEL_ARCH.EXAONE4, keys=_WINDOW, more=metadata.pattern),
    "falcon": GgufFamily(arch=MODEL_ARCH.FALCON, **_FALCON, options=_FOURFOLD),
    "falcon, one norm": GgufFamily(
        arch=MODEL_ARCH.FALCON, **_FALCON, options=families.VARIANTS["falcon, one norm"] | _FOURFOLD
    ),
    "falcon, two norms": GgufFamily(
        arch=MODEL_ARCH.FALCON, **_FALCON, options=families.VARIANTS["falcon, two norms"] | _FOURFOLD
    ),
    "falcon_h1, multipliers": GgufFamily(
        arch=MODEL_ARCH.FALCON_H1, more=recurrent.falcon_h1, convert=tensors.multiplied
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
    "gemma3n_text": GgufFamily(
        arch=MODEL_ARCH.GEMMA3N,
        keys=_WINDOW,
        more=metadata.gemma3n,
        convert=tensors.of_gemma3n,
        options={"vocab_size_per_layer_input": 101},
    ),
    "gemma4_text": GgufFamily(arch=MODEL_ARCH.GEMMA4, **_GEMMA4),
    "gemma4_text, no inputs": GgufFamily(arch=MODEL_ARCH.GEMMA4, **_GEMMA4),
    "gemma4_text, experts": GgufFamily(arch=MODEL_ARCH.GEMMA4, **_GEMMA4),
    "gemma4_text, experts without inputs": GgufFamily(
        arch=MODEL_ARCH.GEMMA4,
        **_GEMMA4,
        options=families.VARIANTS["gemma4_text, experts"]
        | {"hidden_size_per_layer_input": 0, "moe_intermediate_size": 64, "attention_k_eq_v": True},
    ),
    "glm": GgufFamily(arch=MODEL_ARCH.CHATGLM, more=metadata.rotated),
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
    "glm4_moe_lite": GgufFamily(**_DEEPSEEK),
    "gpt_neox": GgufFamily(arch=MODEL_ARCH.GPTNEOX, more=metadata.parallel, convert=tensors.ungrouped),
    "gpt_neox, sequential": GgufFamily(arch=MODEL_ARCH.GPTNEOX, more=metadata.parallel, convert=tensors.ungrouped),
    "granite": GgufFamily(arch=MODEL_ARCH.GRANITE, permutes=True, keys=_GRANITE),
    "granite, multipliers": GgufFamily(arch=MODEL_ARCH.GRANITE, permutes=True, keys=_GRANITE),
    "granitemoehybrid": GgufFamily(
        arch=MODEL_ARCH.GRANITE_HYBRID,
        permutes=True,
        keys=_GRANITE,
        more=recurrent.granite_hybrid,
        convert=tensors.of_mamba2,
        written_by_more=("head_count_kv",),
    ),
    "granitemoehybrid, dense": GgufFamily(
        arch=MODEL_ARCH.GRANITE_HYBRID,
        permutes=True,
        keys=_GRANITE,
        more=recurrent.granite_hybrid,
        convert=tensors.of_mamba2,
        written_by_more=("head_count_kv", "expert_count"),
    ),
    "granitemoe": GgufFamily(arch=MODEL_ARCH.GRANITE_MOE, permutes=True, keys=_GRANITE),
    "granitemoeshared": GgufFamily(arch=MODEL_ARCH.GRANITE_MOE, permutes=True, keys=_GRANITE),
    "hunyuan_v1_dense": GgufFamily(arch=MODEL_ARCH.HUNYUAN_DENSE),
    "hunyuan_v1_dense, stretched": GgufFamily(arch=MODEL_ARCH.HUNYUAN_DENSE, more=metadata.stretched),
    "hunyuan_v1_moe": GgufFamily(arch=MODEL_ARCH.HUNYUAN_MOE, more=metadata.hunyuan_moe),
    "jais2": GgufFamily(arch=MODEL_ARCH.JAIS2),
    "jamba": GgufFamily(
        arch=MODEL_ARCH.JAMBA, more=recurrent.jamba, convert=tensors.of_mamba, written_by_more=("head_count_kv",)
    ),
    "lfm2": GgufFamily(
        arch=MODEL_ARCH.LFM2,
        more=recurrent.lfm2,
        written_by_more=("layer_norm_eps", "head_count_kv", "feed_forward_length"),
    ),
    "lfm2_moe": GgufFamily(
        arch=MODEL_ARCH.LFM2MOE,
        more=recurrent.lfm2_moe,
        convert=tensors.with_expert_bias,
        written_by_more=("layer_norm_eps", "head_count_kv"),
    ),
    "mamba": GgufFamily(arch=MODEL_ARCH.MAMBA, **_MAMBA),
    "mamba, biases": GgufFamily(arch=MODEL_ARCH.MAMBA, **_MAMBA),
    "falcon_mamba": GgufFamily(arch=MODEL_ARCH.MAMBA, **_MAMBA),
    "mamba2": GgufFamily(arch=MODEL_ARCH.MAMBA2, **_MAMBA),
    "minicpm3": GgufFamily(arch=MODEL_ARCH.MINICPM3, **_MINICPM3),
    "minicpm3, long": GgufFamily(
        arch=MODEL_ARCH.MINICPM3,
        **_MINICPM3 | {"options": {"v_head_dim": 16, "rope_parameters": _LONG, "max_position_embeddings": 128}},
    ),
    "minimax_m2": GgufFamily(arch=MODEL_ARCH.MINIMAXM2, more=metadata.minimax_m2, convert=tensors.of_minimax_m2),
    "minimax_m2, partly rotated": GgufFamily(
        arch=MODEL_ARCH.MINIMAXM2, more=metadata.minimax_m2, convert=tensors.of_minimax_m2
    ),
    "ministral3, long": GgufFamily(
        arch=MODEL_ARCH.MISTRAL3,
        permutes=True,
        more=metadata.mistral3,
        options=families.VARIANTS["ministral3, long"] | _WHOLE,
    ),
    "mixtral": GgufFamily(arch=MODEL_ARCH.LLAMA, permutes=True, options=_WHOLE),
    "nemotron_h": GgufFamily(arch=MODEL_ARCH.NEMOTRON_H, **_NEMOTRON_H),
    "nemotron_h, experts": GgufFamily(arch=MODEL_ARCH.NEMOTRON_H_MOE, **_NEMOTRON_H),
    "nemotron, biases": GgufFamily(arch=MODEL_ARCH.NEMOTRON, norm_addend=1.0, more=metadata.rotated),
    "olmo": GgufFamily(arch=MODEL_ARCH.OLMO, permutes=True, more=metadata.olmo),
    "olmo, limited": GgufFamily(arch=MODEL_ARCH.OLMO, permutes=True, more=metadata.olmo),
    "olmo2": GgufFamily(arch=MODEL_ARCH.OLMO2),
    "olmo3": GgufFamily(arch=MODEL_ARCH.OLMO2, keys=_WINDOW, more=metadata.pattern),
    "olmoe": GgufFamily(arch=MODEL_ARCH.OLMOE),
    "phi": GgufFamily(arch=MODEL_ARCH.PHI2, more=metadata.rotated),
    "phi3": GgufFamily(arch=MODEL_ARCH.PHI3, keys=_WINDOW, more=metadata.phi3),
    "qwen2_moe": GgufFamily(arch=MODEL_ARCH.QWEN2MOE, keys=_SHARED),
    "qwen3_5_text": GgufFamily(
        arch=MODEL_ARCH.QWEN35,
        **_DELTA_NET,
        more=recurrent.delta_net,
        convert=tensors.tiled,
    ),
    "qwen3_5_text, a layer that predicts": GgufFamily(
        arch=MODEL_ARCH.QWEN35,
        **_DELTA_NET,
        more=recurrent.delta_net_with_predictor,
        convert=tensors.tiled,
        written_by_more=("block_count",),
        options={"layer_types": ["full_attention", "linear_attention", "linear_attention", "full_attention"]},
    ),
    "qwen3_5_moe_text": GgufFamily(
        arch=MODEL_ARCH.QWEN35MOE,
        **_DELTA_NET,
        more=recurrent.delta_net,
        convert=tensors.tiled,
        keys=_SHARED,
    ),
    "qwen3_next": GgufFamily(
        arch=MODEL_ARCH.QWEN3NEXT,
        **_DELTA_NET,
        more=recurrent.delta_net,
        convert=tensors.of_delta_net,
        keys=_SHARED,
        options={"norm_topk_prob": True},
    ),
    "qwen3_moe": GgufFamily(
        arch=MODEL_ARCH.QWEN3MOE, keys=("moe_intermediate_size",), options={"norm_topk_prob": True}
    ),
    "qwen2": GgufFamily(arch=MODEL_ARCH.QWEN2VL, options=_WHOLE),
    "qwen3": GgufFamily(arch=MODEL_ARCH.QWEN3VL, options=_WHOLE),
    "qwen3_moe, of images": GgufFamily(
        arch=MODEL_ARCH.QWEN3VLMOE, keys=("moe_intermediate_size",), options={"norm_topk_prob": True}
    ),
    "seed_oss, biases": GgufFamily(arch=MODEL_ARCH.SEED_OSS),
    "smollm3": GgufFamily(arch=MODEL_ARCH.SMOLLM3, permutes=True),
    "stablelm, parallel": GgufFamily(arch=MODEL_ARCH.STABLELM, more=metadata.parallel),
    "starcoder2": GgufFamily(arch=MODEL_ARCH.STARCODER2, options=_WHOLE),
    **LLAMAS,
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
