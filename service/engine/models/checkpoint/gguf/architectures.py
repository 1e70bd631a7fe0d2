"""The architectures of GGUF files: how their tensors are named, ordered and stored.

A name of a file is that of a module and its kind, as in `blk.3.attn_q.weight`.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from service.engine.models.checkpoint.gguf import layer_names as names


@dataclass(frozen=True, slots=True, kw_only=True)
class StackedExperts:
    """The names in a layer of checkpoints' tensors that have the rows of all experts, and the order of these."""

    gate_up: str
    down: str
    ends: Mapping[str, str]  # of the names, by the kind of tensor
    shared: str = ""  # the module with gate and up of the shared expert; empty: they are modules of their own
    is_interleaved: bool = False  # the rows of gate and up alternate; otherwise gate is the first half
    is_transposed: bool = False  # an expert's weights are [inputs, outputs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """How the tensors of an architecture's files differ from those of transformers' checkpoints."""

    layer: Mapping[str, str] = field(default_factory=dict)  # a layer's modules that aren't named like Llama's
    outside: Mapping[str, str] = field(default_factory=dict)  # the modules outside of layers, likewise
    layers: str = "model.layers.{}."  # the beginning of a layer's names
    is_interleaved: bool = False  # the rows of queries and keys alternate between the halves of their head
    norm_addend: float = 0.0  # what the file's norms have in addition to the checkpoint's
    vectors: Mapping[str, str] = field(default_factory=dict)  # whole names in a layer, of tensors without a kind
    tiles_values: bool = False  # value heads of delta nets are not in the order of their key heads
    has_xielu: bool = False  # the metadata have the parameters of the activation function xIELU
    groups_heads: bool = False  # checkpoints have the rows of queries, keys and values by heads of keys
    stacked: StackedExperts | None = None  # the experts in checkpoints; None: they are stored separately

    def module(self, name: str, *, is_in_layer: bool) -> str | None:
        """Return the module of a checkpoint that the file names `name`, or None if it is unknown."""
        usual, own = (names.LAYER, self.layer) if is_in_layer else (names.OUTSIDE, self.outside)
        return own.get(name) or usual.get(name)


_PLAIN: Final = Architecture()
_GRANITE_STACKED: Final = StackedExperts(
    gate_up="block_sparse_moe.input_linear",
    down="block_sparse_moe.output_linear",
    ends={"weight": ".weight"},
    shared="shared_mlp.input_linear",
)
_QWEN35: Final[dict[str, Any]] = {
    "layer": names.EXPERTS | names.DELTA_NET | names.LATER_NORM | names.PREDICTORS,
    "norm_addend": 1.0,
    "vectors": names.DELTA_NET_VECTORS,
}
_FALCON: Final[dict[str, Any]] = {
    "outside": {"token_embd": "transformer.word_embeddings", "output_norm": "transformer.ln_f"},
    "layers": "transformer.h.{}.",
    "groups_heads": True,
}
_WITH_EXPERTS: Final = Architecture(layer=names.EXPERTS)
_INTERLEAVED: Final = Architecture(is_interleaved=True)
_BACKBONE: Final = "backbone.layers.{}."
_NEMOTRON_H: Final = Architecture(
    layer=names.NEMOTRON_H,
    outside=names.SSM_OUTSIDE,
    layers=_BACKBONE,
    vectors=names.SSM_VECTORS
    | {"ssm_dt.bias": "mixer.dt_bias", "exp_probs_b.bias": "mixer.gate.e_score_correction_bias"},
)
# Names that files don't state: they say llama and falcon.
MIXTRAL: Final = "llama with experts"
FALCON_2: Final = "falcon with two norms"
UNSTATED: Final = frozenset({MIXTRAL, FALCON_2})
ARCHITECTURES: Final[dict[str, Architecture]] = {
    "apertus": Architecture(layer=names.APERTUS, has_xielu=True),
    "arcee": _INTERLEAVED,
    "baichuan": _INTERLEAVED,
    "bitnet": Architecture(layer=names.SUB_NORMS),
    "chatglm": Architecture(layer={"ffn_up": "mlp.gate_up_proj"}),
    "cohere2": _PLAIN,
    "command-r": _PLAIN,
    "deepseek2": Architecture(layer=names.SHARED_EXPERTS | names.LATENTS | names.PREDICTORS, vectors=names.CORRECTION),
    "dots1": Architecture(layer=names.SHARED_EXPERTS, vectors=names.CORRECTION),
    "ernie4_5": _PLAIN,
    "ernie4_5-moe": Architecture(
        layer=names.SHARED_EXPERTS, vectors={"exp_probs_b.bias": "mlp.moe_statics.e_score_correction_bias"}
    ),
    "exaone": _PLAIN,
    "exaone-moe": Architecture(
        layer=names.SHARED_EXPERTS | names.PREDICTORS, vectors={"exp_probs_b.bias": "mlp.e_score_correction_bias"}
    ),
    "exaone4": Architecture(layer=names.OUTPUT_NORMS),
    "falcon-h1": Architecture(
        layer=names.FALCON_H1,
        outside={"output_norm": "model.final_layernorm"},
        vectors=names.MAMBA_VECTORS
        | {
            "ffn_norm": "pre_ff_layernorm.weight",
            "ffn_norm.weight": "pre_ff_layernorm.weight",
        },
    ),
    "falcon": Architecture(**_FALCON, layer=names.FALCON),
    FALCON_2: Architecture(**_FALCON, layer=names.FALCON_2),
    "gemma": Architecture(norm_addend=1.0),
    "gemma-embedding": Architecture(layer=names.FOUR_NORMS, norm_addend=1.0),
    "gemma2": Architecture(layer=names.FOUR_NORMS, norm_addend=1.0),
    "gemma3": Architecture(layer=names.FOUR_NORMS, norm_addend=1.0),
    "gemma3n": Architecture(
        layer=names.GEMMA3N,
        outside=names.LAYER_INPUTS_OUTSIDE
        | {"altup_proj": "model.altup_projections.{}", "altup_unembd_proj": "model.altup_unembed_projections.{}"},
        vectors={"altup_correct_scale.weight": "altup.correct_output_scale"},
    ),
    "gemma4": Architecture(
        layer=names.GEMMA4,
        outside=names.LAYER_INPUTS_OUTSIDE,
        vectors={
            "layer_output_scale.weight": "layer_scalar",
            "ffn_gate_inp.scale": "router.scale",
            "ffn_down_exps.scale": "router.per_expert_scale",
        },
        stacked=StackedExperts(gate_up="experts.gate_up_proj", down="experts.down_proj", ends={"weight": ""}),
    ),
    "glm4": Architecture(layer=names.GLM_NORMS | {"ffn_up": "mlp.gate_up_proj"}),
    "glm4moe": Architecture(layer=names.SHARED_EXPERTS | names.LATER_NORM | names.PREDICTORS, vectors=names.CORRECTION),
    "gpt-oss": Architecture(
        layer=names.EXPERTS | names.LATER_NORM | {"attn_sinks": "self_attn.sinks", "ffn_gate_inp": "mlp.router"},
        stacked=StackedExperts(
            gate_up="mlp.experts.gate_up_proj",
            down="mlp.experts.down_proj",
            ends={"weight": "", "bias": "_bias"},
            is_interleaved=True,
            is_transposed=True,
        ),
    ),
    "gptneox": Architecture(
        layer=names.GPT_NEOX,
        outside={
            "token_embd": "gpt_neox.embed_in",
            "output_norm": "gpt_neox.final_layer_norm",
            "output": "embed_out",
        },
        layers="gpt_neox.layers.{}.",
        groups_heads=True,
    ),
    "granite": _INTERLEAVED,
    "granitehybrid": Architecture(
        layer=names.GRANITE_MOE
        | names.MAMBA
        | {
            "ffn_gate": "mlp.shared_expert.gate_proj",
            "ffn_up": "mlp.shared_expert.up_proj",
            "ffn_down": "shared_mlp.output_linear",
        },
        vectors=names.MAMBA_VECTORS,
        is_interleaved=True,
        stacked=_GRANITE_STACKED,
    ),
    "granitemoe": Architecture(layer=names.GRANITE_MOE, is_interleaved=True, stacked=_GRANITE_STACKED),
    "hunyuan-dense": Architecture(layer=names.HUNYUAN),
    "hunyuan-moe": Architecture(layer=names.HUNYUAN_MOE),
    "internlm2": _INTERLEAVED,
    "jais2": _PLAIN,
    "jamba": Architecture(
        layer=names.JAMBA,
        outside={"output_norm": "model.final_layernorm"},
        vectors={"ssm_a": "mamba.A_log", "ssm_d": "mamba.D"},
    ),
    "lfm2": Architecture(layer=names.LFM2, outside={"token_embd_norm": "model.embedding_norm"}),
    "lfm2moe": Architecture(
        layer=names.LFM2_MOE,
        outside={"token_embd_norm": "model.embedding_norm"},
        vectors={"exp_probs_b.bias": "feed_forward.expert_bias"},
    ),
    "llama": _INTERLEAVED,
    MIXTRAL: Architecture(layer=names.MIXTRAL, is_interleaved=True),
    "mamba": Architecture(layer=names.SSM, outside=names.SSM_OUTSIDE, layers=_BACKBONE, vectors=names.SSM_VECTORS),
    "mamba2": Architecture(
        layer=names.SSM,
        outside=names.SSM_OUTSIDE,
        layers=_BACKBONE,
        vectors=names.SSM_VECTORS | {"ssm_dt.bias": "mixer.dt_bias"},
    ),
    "minimax-m2": Architecture(
        layer=names.MIXTRAL, vectors={"exp_probs_b.bias": "block_sparse_moe.e_score_correction_bias"}
    ),
    "minicpm": _INTERLEAVED,
    "minicpm3": Architecture(layer=names.LATENTS),
    "mistral3": _INTERLEAVED,
    "nemotron": Architecture(norm_addend=1.0),
    "nemotron_h": _NEMOTRON_H,
    "nemotron_h_moe": _NEMOTRON_H,
    "olmo": _INTERLEAVED,
    "olmo2": Architecture(layer=names.OUTPUT_NORMS),
    "olmoe": _WITH_EXPERTS,
    "pangu-embedded": _PLAIN,
    "phi2": Architecture(layer=names.PHI2, outside={"output_norm": "model.final_layernorm"}),
    "phi3": Architecture(layer={"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}),
    "qwen2": _PLAIN,
    "qwen2moe": _WITH_EXPERTS,
    "qwen2vl": _PLAIN,
    "qwen3": _PLAIN,
    "qwen3vl": _PLAIN,
    "qwen3vlmoe": _WITH_EXPERTS,
    "qwen35": Architecture(**_QWEN35, tiles_values=True),
    "qwen35moe": Architecture(**_QWEN35, tiles_values=True),
    "qwen3moe": _WITH_EXPERTS,
    "qwen3next": Architecture(**_QWEN35),
    "seed_oss": Architecture(layer=names.LATER_NORM),
    "smollm3": _INTERLEAVED,
    "stablelm": _PLAIN,
    "starcoder2": Architecture(layer={"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}),
    "xverse": _INTERLEAVED,
}


def architecture_of(metadata: Mapping[str, object], tensors: Container[str]) -> str:
    """Return the name in the table of the architecture that a file states, which may be missing there.

    `tensors` are the names of the model's tensors.
    """
    name = str(metadata.get("general.architecture"))
    if name == "llama" and metadata.get("llama.expert_count"):
        return MIXTRAL
    return FALCON_2 if name == "falcon" and "blk.0.attn_norm_2.weight" in tensors else name
