"""The families of GGUF files: their types in transformers, and the fields of config.json that only they have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from service.engine.loading.gguf.gemma_families import gelu, gemma2, gemma3, gemma3n, gemma4, gemma_embedding
from service.engine.loading.gguf.layer_norm_families import (
    cohere,
    cohere2,
    falcon,
    gpt_neox,
    jais2,
    nemotron,
    olmo,
    phi2,
    stablelm,
    starcoder2,
)
from service.engine.loading.gguf.metadata import GgufMetadata, head_dim_of
from service.engine.loading.gguf.mixed_families import (
    apertus,
    deepseek,
    dots1,
    ernie_moe,
    exaone_moe,
    glm_moe,
    minicpm3,
    mistral3,
    qwen3_next,
    qwen35,
)
from service.engine.loading.gguf.recurrent_families import (
    falcon_h1,
    jamba,
    lfm2,
    lfm2_moe,
    mamba,
    mamba2,
    mamba2_layers,
    nemotron_h,
)
from service.engine.loading.gguf.rotary import rope_scaling, rotated_share
from service.engine.loading.gguf.windows import kinds, windows
from service.engine.models.checkpoint.gguf.architectures import FALCON_2, MIXTRAL
from service.generation.errors import ModelLoadError

Fields: TypeAlias = dict[str, Any]

_QUERY_BIAS: Final = "blk.*.attn_q.bias"
_OUTPUT_BIAS: Final = "blk.*.attn_output.bias"
_ROTATED_LAYERS: Final = 32  # of Baichuan 7B
_UP_BIAS: Final = "blk.*.ffn_up.bias"


@dataclass(frozen=True, slots=True)
class GgufFamily:
    """A family's type and class in transformers, and a function for its own fields."""

    model_type: str
    model_class: str
    fields: Callable[[GgufMetadata], Fields] = lambda _: {}
    rotates_parts: bool = False  # a head may be rotated in part
    has_attention: bool = True  # some layers have heads of keys
    only_embeds: bool = False  # tokens attend to later ones, so the model doesn't generate
    has_own_rotation: bool = False  # `fields` returns rope_parameters


def _bias(metadata: GgufMetadata) -> Fields:
    return {"attention_bias": metadata.has(_QUERY_BIAS), "mlp_bias": metadata.has(_UP_BIAS)}


def _experts(metadata: GgufMetadata) -> Fields:
    return {
        "num_experts": metadata.size("expert_count"),
        "num_local_experts": metadata.size("expert_count"),
        "num_experts_per_tok": metadata.size("expert_used_count"),
    }


def _wide_experts(metadata: GgufMetadata) -> Fields:
    return _experts(metadata) | {"moe_intermediate_size": metadata.width("blk.*.ffn_down_exps.weight")}


def _qwen2_moe(metadata: GgufMetadata) -> Fields:
    return _wide_experts(metadata) | {
        "qkv_bias": metadata.has(_QUERY_BIAS),
        "norm_topk_prob": False,
        "shared_expert_intermediate_size": metadata.width("blk.*.ffn_down_shexp.weight"),
    }


def _qwen3_moe(metadata: GgufMetadata) -> Fields:
    return _wide_experts(metadata) | {"norm_topk_prob": True, "attention_bias": metadata.has(_QUERY_BIAS)}


def _phi3(metadata: GgufMetadata) -> Fields:
    trained = metadata.size("rope.scaling.original_context_length", metadata.size("context_length"))
    return {
        "sliding_window": metadata.optional_size("attention.sliding_window"),
        "original_max_position_embeddings": trained,
        "partial_rotary_factor": rotated_share(metadata, head_dim_of(metadata)),
    }


def _hunyuan_moe(metadata: GgufMetadata) -> Fields:
    width = metadata.width("blk.*.ffn_down_exps.weight")
    if metadata.width("blk.*.ffn_down_shexp.weight") != width:
        raise ModelLoadError(f"{metadata.file}: the shared expert must have the width of the others, {width}")
    return _bias(metadata) | {
        "intermediate_size": width,
        "num_experts": metadata.size("expert_count"),
        "moe_topk": metadata.size("expert_used_count"),
    }


def _minimax_m2(metadata: GgufMetadata) -> Fields:
    return _part(metadata) | {
        "intermediate_size": metadata.width("blk.*.ffn_down_exps.weight"),
        "num_local_experts": metadata.size("expert_count"),
        "num_experts_per_tok": metadata.size("expert_used_count"),
    }


def _gpt_oss(metadata: GgufMetadata) -> Fields:
    rope = rope_scaling(metadata, metadata.number("rope.freq_base"), head_dim_of(metadata))
    return _experts(metadata) | {
        "rope_scaling": rope | {"truncate": False} if rope else {"rope_type": "default"},
        "intermediate_size": metadata.width("blk.*.ffn_down_exps.weight"),
        "sliding_window": metadata.size("attention.sliding_window"),
        "layer_types": kinds(metadata, 2),
        "attention_bias": metadata.has(_QUERY_BIAS),
    }


def _granite(metadata: GgufMetadata) -> Fields:
    return _bias(metadata) | {
        "attention_multiplier": metadata.number("attention.scale", head_dim_of(metadata) ** -0.5),
        "embedding_multiplier": metadata.number("embedding_scale", 1.0),
        "residual_multiplier": metadata.number("residual_scale", 1.0),
        "logits_scaling": metadata.number("logit_scale", 1.0),
    }


def _baichuan(metadata: GgufMetadata) -> Fields:
    if metadata.size("block_count") != _ROTATED_LAYERS:  # as llama.cpp knows it from Baichuan 13B, which has ALiBi
        raise ModelLoadError(f"{metadata.file}: {metadata.kind}.block_count must be {_ROTATED_LAYERS}")
    return _bias(metadata)


def _minicpm(metadata: GgufMetadata) -> Fields:
    """Return the fields of MiniCPM 1 and 4. Old files lack the multipliers, which are those of MiniCPM-2B."""
    return _bias(metadata) | {
        "attention_multiplier": head_dim_of(metadata) ** -0.5,
        "embedding_multiplier": metadata.number("embedding_scale", 12.0),
        "residual_multiplier": metadata.number("residual_scale", 1.4 * metadata.size("block_count") ** -0.5),
        "logits_scaling": metadata.number("logit_scale", metadata.size("embedding_length") / 256),
        "original_max_position_embeddings": metadata.size("context_length"),
    }


def _granite_moe(metadata: GgufMetadata) -> Fields:
    shared = "blk.*.ffn_down_shexp.weight"
    width = {"shared_intermediate_size": metadata.width(shared)} if metadata.has(shared) else {}
    return _granite(metadata) | _experts(metadata) | width


def _olmo2(metadata: GgufMetadata) -> Fields:
    if metadata.optional_size("attention.sliding_window") is None:
        return _bias(metadata)
    return (
        _bias(metadata)
        | windows(metadata, 4)
        | {
            "model_type": "olmo3",
            "architectures": ["Olmo3ForCausalLM"],
        }
    )


def _olmoe(metadata: GgufMetadata) -> Fields:
    return _experts(metadata) | {"norm_topk_prob": False, "attention_bias": metadata.has(_QUERY_BIAS)}


def _part(metadata: GgufMetadata) -> Fields:
    return {"partial_rotary_factor": rotated_share(metadata, head_dim_of(metadata))}


def _glm4(metadata: GgufMetadata) -> Fields:
    return _bias(metadata) | _part(metadata)


def _ernie(metadata: GgufMetadata) -> Fields:
    return {"use_bias": metadata.has(_QUERY_BIAS)}


def _seed_oss(metadata: GgufMetadata) -> Fields:
    return _bias(metadata) | {"attention_out_bias": metadata.has(_OUTPUT_BIAS)}


def _arcee(metadata: GgufMetadata) -> Fields:
    return _bias(metadata) | {"hidden_act": "relu2"}


def _granite_hybrid(metadata: GgufMetadata) -> Fields:
    shared = "blk.*.ffn_down_shexp.weight"
    width = metadata.width(shared if metadata.has(shared) else "blk.*.ffn_down.weight")
    experts = _experts(metadata) if metadata.count("expert_count", 0) else {"num_local_experts": 0}
    return _granite(metadata) | experts | mamba2_layers(metadata) | {"shared_intermediate_size": width}


_FALCON: Final = GgufFamily("falcon", "FalconForCausalLM", falcon)
FAMILIES: Final[dict[str, GgufFamily]] = {
    "apertus": GgufFamily("apertus", "ApertusForCausalLM", apertus),
    "arcee": GgufFamily("arcee", "ArceeForCausalLM", _arcee),
    "baichuan": GgufFamily("llama", "LlamaForCausalLM", _baichuan),
    "bitnet": GgufFamily("bitnet", "BitNetForCausalLM", _bias),
    "chatglm": GgufFamily("glm", "GlmForCausalLM", _glm4, rotates_parts=True),
    "cohere2": GgufFamily("cohere2", "Cohere2ForCausalLM", cohere2),
    "command-r": GgufFamily("cohere", "CohereForCausalLM", cohere),
    "deepseek2": GgufFamily("deepseek_v3", "DeepseekV3ForCausalLM", deepseek, rotates_parts=True),
    "dots1": GgufFamily("dots1", "Dots1ForCausalLM", dots1),
    "ernie4_5-moe": GgufFamily("ernie4_5_moe", "Ernie4_5_MoeForCausalLM", ernie_moe),
    "ernie4_5": GgufFamily("ernie4_5", "Ernie4_5ForCausalLM", _ernie),
    "exaone-moe": GgufFamily("exaone_moe", "ExaoneMoeForCausalLM", exaone_moe),
    "exaone": GgufFamily("llama", "LlamaForCausalLM", _bias),
    "exaone4": GgufFamily("exaone4", "Exaone4ForCausalLM", lambda metadata: windows(metadata, 4)),
    "falcon-h1": GgufFamily("falcon_h1", "FalconH1ForCausalLM", falcon_h1),
    "falcon": _FALCON,
    FALCON_2: _FALCON,
    "gemma": GgufFamily("gemma", "GemmaForCausalLM", gelu),
    "gemma-embedding": GgufFamily("gemma3_text", "Gemma3TextModel", gemma_embedding, only_embeds=True),
    "gemma2": GgufFamily("gemma2", "Gemma2ForCausalLM", gemma2),
    "gemma3": GgufFamily("gemma3_text", "Gemma3ForCausalLM", gemma3),
    "gemma3n": GgufFamily("gemma3n_text", "Gemma3nForCausalLM", gemma3n),
    "gemma4": GgufFamily("gemma4_text", "Gemma4ForCausalLM", gemma4, has_own_rotation=True),
    "glm4": GgufFamily("glm4", "Glm4ForCausalLM", _glm4, rotates_parts=True),
    "glm4moe": GgufFamily("glm4_moe", "Glm4MoeForCausalLM", glm_moe, rotates_parts=True),
    "gpt-oss": GgufFamily("gpt_oss", "GptOssForCausalLM", _gpt_oss),
    "gptneox": GgufFamily("gpt_neox", "GPTNeoXForCausalLM", gpt_neox, rotates_parts=True),
    "granite": GgufFamily("granite", "GraniteForCausalLM", _granite),
    "granitehybrid": GgufFamily("granitemoehybrid", "GraniteMoeHybridForCausalLM", _granite_hybrid),
    "granitemoe": GgufFamily("granitemoeshared", "GraniteMoeSharedForCausalLM", _granite_moe),
    "hunyuan-dense": GgufFamily("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", _bias),
    "hunyuan-moe": GgufFamily("hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", _hunyuan_moe),
    "internlm2": GgufFamily("llama", "LlamaForCausalLM", _bias),
    "jais2": GgufFamily("jais2", "Jais2ForCausalLM", jais2),
    "jamba": GgufFamily("jamba", "JambaForCausalLM", jamba),
    "lfm2": GgufFamily("lfm2", "Lfm2ForCausalLM", lfm2),
    "lfm2moe": GgufFamily("lfm2_moe", "Lfm2MoeForCausalLM", lfm2_moe),
    "llama": GgufFamily("llama", "LlamaForCausalLM", _bias),
    MIXTRAL: GgufFamily("mixtral", "MixtralForCausalLM", _experts),
    "mamba": GgufFamily("mamba", "MambaForCausalLM", mamba, has_attention=False),
    "mamba2": GgufFamily("mamba2", "Mamba2ForCausalLM", mamba2, has_attention=False),
    "minimax-m2": GgufFamily("minimax_m2", "MiniMaxM2ForCausalLM", _minimax_m2, rotates_parts=True),
    "minicpm": GgufFamily("granite", "GraniteForCausalLM", _minicpm),
    "minicpm3": GgufFamily("minicpm3", "MiniCPM3ForCausalLM", minicpm3, rotates_parts=True),
    "mistral3": GgufFamily("ministral3", "Ministral3ForCausalLM", mistral3),
    "nemotron_h": GgufFamily("nemotron_h", "NemotronHForCausalLM", nemotron_h, rotates_parts=True),
    "nemotron_h_moe": GgufFamily("nemotron_h", "NemotronHForCausalLM", nemotron_h, rotates_parts=True),
    "nemotron": GgufFamily("nemotron", "NemotronForCausalLM", nemotron, rotates_parts=True),
    "olmo": GgufFamily("olmo", "OlmoForCausalLM", olmo),
    "olmo2": GgufFamily("olmo2", "Olmo2ForCausalLM", _olmo2),
    "olmoe": GgufFamily("olmoe", "OlmoeForCausalLM", _olmoe),
    "pangu-embedded": GgufFamily("llama", "LlamaForCausalLM", _bias),
    "phi2": GgufFamily("phi", "PhiForCausalLM", phi2, rotates_parts=True),
    "phi3": GgufFamily("phi3", "Phi3ForCausalLM", _phi3, rotates_parts=True),
    "qwen2": GgufFamily("qwen2", "Qwen2ForCausalLM"),
    "qwen2moe": GgufFamily("qwen2_moe", "Qwen2MoeForCausalLM", _qwen2_moe),
    "qwen2vl": GgufFamily("qwen2", "Qwen2ForCausalLM"),  # a text's positions are those of Qwen2
    "qwen3vl": GgufFamily("qwen3", "Qwen3ForCausalLM"),
    "qwen3vlmoe": GgufFamily("qwen3_moe", "Qwen3MoeForCausalLM", _qwen3_moe),
    "qwen3": GgufFamily("qwen3", "Qwen3ForCausalLM"),
    "qwen35": GgufFamily("qwen3_5_text", "Qwen3_5ForCausalLM", qwen35, rotates_parts=True),
    "qwen35moe": GgufFamily("qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", qwen3_next, rotates_parts=True),
    "qwen3moe": GgufFamily("qwen3_moe", "Qwen3MoeForCausalLM", _qwen3_moe),
    "qwen3next": GgufFamily("qwen3_next", "Qwen3NextForCausalLM", qwen3_next, rotates_parts=True),
    "seed_oss": GgufFamily("seed_oss", "SeedOssForCausalLM", _seed_oss),
    "smollm3": GgufFamily("smollm3", "SmolLM3ForCausalLM", _bias),
    "stablelm": GgufFamily("stablelm", "StableLmForCausalLM", stablelm, rotates_parts=True),
    "starcoder2": GgufFamily("starcoder2", "Starcoder2ForCausalLM", starcoder2),
    "xverse": GgufFamily("llama", "LlamaForCausalLM", _bias),
}
