"""The architectures of GGUF files: how their tensors are named, ordered and stored.

A name of a file is that of a module and its kind, as in `blk.3.attn_q.weight`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_OUTSIDE: Final = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
# An expert's index stands for `{}`; a file stores all experts of a layer in one tensor.
_EXPERTS: Final = {
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.{}.gate_proj",
    "ffn_up_exps": "mlp.experts.{}.up_proj",
    "ffn_down_exps": "mlp.experts.{}.down_proj",
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj",
    "ffn_down_shexp": "mlp.shared_expert.down_proj",
}
_GRANITE_MOE: Final = _EXPERTS | {
    "ffn_gate_inp": "block_sparse_moe.router.layer",
    "ffn_down_shexp": "shared_mlp.output_linear",
}
_SHARED_EXPERTS: Final = _EXPERTS | {
    f"ffn_{part}_shexp": f"mlp.shared_experts.{part}_proj" for part in ("gate", "up", "down")
}
_MIXTRAL: Final = {
    "ffn_gate_inp": "block_sparse_moe.gate",
    "ffn_gate_exps": "block_sparse_moe.experts.{}.w1",
    "ffn_up_exps": "block_sparse_moe.experts.{}.w3",
    "ffn_down_exps": "block_sparse_moe.experts.{}.w2",
}
_OUTPUT_NORMS: Final = {
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_FOUR_NORMS: Final = _OUTPUT_NORMS | {"ffn_norm": "pre_feedforward_layernorm"}
_GLM_NORMS: Final = {"post_attention_norm": "post_self_attn_layernorm", "post_ffw_norm": "post_mlp_layernorm"}
_LATER_NORM: Final = {"post_attention_norm": "post_attention_layernorm"}
_LFM2: Final = {
    "attn_norm": "operator_norm",
    "attn_q_norm": "self_attn.q_layernorm",
    "attn_k_norm": "self_attn.k_layernorm",
    "attn_output": "self_attn.out_proj",
    "shortconv.in_proj": "conv.in_proj",
    "shortconv.conv": "conv.conv",
    "shortconv.out_proj": "conv.out_proj",
    "ffn_norm": "ffn_norm",
    "ffn_gate": "feed_forward.w1",
    "ffn_up": "feed_forward.w3",
    "ffn_down": "feed_forward.w2",
}
_LFM2_MOE: Final = _LFM2 | {
    "ffn_gate_inp": "feed_forward.gate",
    "ffn_gate_exps": "feed_forward.experts.{}.w1",
    "ffn_up_exps": "feed_forward.experts.{}.w3",
    "ffn_down_exps": "feed_forward.experts.{}.w2",
}
# The layers that predict further tokens, which are not computed.
_PREDICTORS: Final = {
    "nextn.eh_proj": "eh_proj",
    "nextn.embed_tokens": "embed_tokens",
    "nextn.enorm": "enorm",
    "nextn.hnorm": "hnorm",
    "nextn.shared_head_head": "shared_head.head",
    "nextn.shared_head_norm": "shared_head.norm",
}
_CORRECTION: Final = {"exp_probs_b.bias": "mlp.gate.e_score_correction_bias"}
_LATENTS: Final = {
    "attn_q_a": "self_attn.q_a_proj",
    "attn_q_a_norm": "self_attn.q_a_layernorm",
    "attn_q_b": "self_attn.q_b_proj",
    "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
    "attn_kv_a_norm": "self_attn.kv_a_layernorm",
    "attn_kv_b": "self_attn.kv_b_proj",
    "attn_k_b": "self_attn.k_b_proj",
    "attn_v_b": "self_attn.v_b_proj",
}
_DELTA_NET: Final = {
    "attn_qkv": "linear_attn.in_proj_qkv",
    "attn_gate": "linear_attn.in_proj_z",
    "ssm_in": "linear_attn.in_proj_qkvz",
    "ssm_ba": "linear_attn.in_proj_ba",
    "ssm_beta": "linear_attn.in_proj_b",
    "ssm_alpha": "linear_attn.in_proj_a",
    "ssm_conv1d": "linear_attn.conv1d",
    "ssm_norm": "linear_attn.norm",
    "ssm_out": "linear_attn.out_proj",
}
_DELTA_NET_VECTORS: Final = {"ssm_a": "linear_attn.A_log", "ssm_dt.bias": "linear_attn.dt_bias"}
_MAMBA: Final = {
    "ssm_in": "mamba.in_proj",
    "ssm_conv1d": "mamba.conv1d",
    "ssm_norm": "mamba.norm",
    "ssm_out": "mamba.out_proj",
}
_MAMBA_VECTORS: Final = {"ssm_a": "mamba.A_log", "ssm_d": "mamba.D", "ssm_dt.bias": "mamba.dt_bias"}
_FALCON_H1: Final = {
    **_MAMBA,
    **{f"ffn_{part}": f"feed_forward.{part}_proj" for part in ("gate", "up", "down")},
}
_APERTUS: Final = {"attn_norm": "attention_layernorm", "ffn_norm": "feedforward_layernorm"}


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
    is_interleaved: bool = False  # the rows of queries and keys alternate between the halves of their head
    norm_addend: float = 0.0  # what the file's norms have in addition to the checkpoint's
    vectors: Mapping[str, str] = field(default_factory=dict)  # whole names in a layer, of tensors without a kind
    tiles_values: bool = False  # value heads of delta nets are not in the order of their key heads
    has_xielu: bool = False  # the metadata have the parameters of the activation function xIELU
    stacked: StackedExperts | None = None  # the experts in checkpoints; None: they are stored separately

    def module(self, name: str, *, is_in_layer: bool) -> str | None:
        """Return the module of a checkpoint that the file names `name`, or None if it is unknown."""
        usual, own = (_LAYER, self.layer) if is_in_layer else (_OUTSIDE, self.outside)
        return own.get(name) or usual.get(name)


_PLAIN: Final = Architecture()
_GRANITE_STACKED: Final = StackedExperts(
    gate_up="block_sparse_moe.input_linear",
    down="block_sparse_moe.output_linear",
    ends={"weight": ".weight"},
    shared="shared_mlp.input_linear",
)
_QWEN35: Final[dict[str, Any]] = {
    "layer": _EXPERTS | _DELTA_NET | _LATER_NORM | _PREDICTORS,
    "norm_addend": 1.0,
    "vectors": _DELTA_NET_VECTORS,
}
_WITH_EXPERTS: Final = Architecture(layer=_EXPERTS)
_INTERLEAVED: Final = Architecture(is_interleaved=True)
MIXTRAL: Final = "llama with experts"  # the files themselves say llama
ARCHITECTURES: Final[dict[str, Architecture]] = {
    "apertus": Architecture(layer=_APERTUS, has_xielu=True),
    "arcee": _INTERLEAVED,
    "cohere2": _PLAIN,
    "command-r": _PLAIN,
    "deepseek2": Architecture(layer=_SHARED_EXPERTS | _LATENTS | _PREDICTORS, vectors=_CORRECTION),
    "ernie4_5": _PLAIN,
    "ernie4_5-moe": Architecture(
        layer=_SHARED_EXPERTS, vectors={"exp_probs_b.bias": "mlp.moe_statics.e_score_correction_bias"}
    ),
    "exaone4": Architecture(layer=_OUTPUT_NORMS),
    "falcon-h1": Architecture(
        layer=_FALCON_H1,
        outside={"output_norm": "model.final_layernorm"},
        vectors=_MAMBA_VECTORS
        | {
            "ffn_norm": "pre_ff_layernorm.weight",
            "ffn_norm.weight": "pre_ff_layernorm.weight",
        },
    ),
    "gemma": Architecture(norm_addend=1.0),
    "gemma2": Architecture(layer=_FOUR_NORMS, norm_addend=1.0),
    "gemma3": Architecture(layer=_FOUR_NORMS, norm_addend=1.0),
    "glm4": Architecture(layer=_GLM_NORMS | {"ffn_up": "mlp.gate_up_proj"}),
    "glm4moe": Architecture(layer=_SHARED_EXPERTS | _LATER_NORM | _PREDICTORS, vectors=_CORRECTION),
    "gpt-oss": Architecture(
        layer=_EXPERTS | _LATER_NORM | {"attn_sinks": "self_attn.sinks", "ffn_gate_inp": "mlp.router"},
        stacked=StackedExperts(
            gate_up="mlp.experts.gate_up_proj",
            down="mlp.experts.down_proj",
            ends={"weight": "", "bias": "_bias"},
            is_interleaved=True,
            is_transposed=True,
        ),
    ),
    "granite": _INTERLEAVED,
    "granitehybrid": Architecture(
        layer=_GRANITE_MOE
        | _MAMBA
        | {
            "ffn_gate": "mlp.shared_expert.gate_proj",
            "ffn_up": "mlp.shared_expert.up_proj",
            "ffn_down": "shared_mlp.output_linear",
        },
        vectors=_MAMBA_VECTORS,
        is_interleaved=True,
        stacked=_GRANITE_STACKED,
    ),
    "granitemoe": Architecture(layer=_GRANITE_MOE, is_interleaved=True, stacked=_GRANITE_STACKED),
    "hunyuan-dense": Architecture(
        layer={"attn_q_norm": "self_attn.query_layernorm", "attn_k_norm": "self_attn.key_layernorm"}
    ),
    "lfm2": Architecture(layer=_LFM2, outside={"token_embd_norm": "model.embedding_norm"}),
    "lfm2moe": Architecture(
        layer=_LFM2_MOE,
        outside={"token_embd_norm": "model.embedding_norm"},
        vectors={"exp_probs_b.bias": "feed_forward.expert_bias"},
    ),
    "llama": _INTERLEAVED,
    MIXTRAL: Architecture(layer=_MIXTRAL, is_interleaved=True),
    "mistral3": _INTERLEAVED,
    "nemotron": Architecture(norm_addend=1.0),
    "olmo2": Architecture(layer=_OUTPUT_NORMS),
    "olmoe": _WITH_EXPERTS,
    "phi3": Architecture(layer={"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}),
    "qwen2": _PLAIN,
    "qwen2moe": _WITH_EXPERTS,
    "qwen3": _PLAIN,
    "qwen35": Architecture(**_QWEN35, tiles_values=True),
    "qwen35moe": Architecture(**_QWEN35, tiles_values=True),
    "qwen3moe": _WITH_EXPERTS,
    "qwen3next": Architecture(**_QWEN35),
    "seed_oss": Architecture(layer=_LATER_NORM),
    "smollm3": _INTERLEAVED,
    "stablelm": _PLAIN,
    "starcoder2": Architecture(layer={"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}),
}


def architecture_of(metadata: Mapping[str, object]) -> str:
    """Return the name in the table of the architecture that a file's metadata state; it may be missing there."""
    name = str(metadata.get("general.architecture"))
    return MIXTRAL if name == "llama" and metadata.get("llama.expert_count") else name
