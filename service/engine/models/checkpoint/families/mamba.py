"""The defaults of types with Mamba layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from service.engine.models.checkpoint.families.dense import GRANITE, LLAMA
from service.engine.models.checkpoint.families.family_defaults import FamilyDefaults, Fields, UncommonConfigError
from service.engine.models.checkpoint.families.recurrent import LAYER_KINDS, WITHOUT_ATTENTION

_LETTERS: Final = {"M": "linear_attention", "E": "moe", "*": "full_attention", "-": "mlp"}
_MAMBA2: Final[dict[str, Any]] = {
    "mamba_n_heads": 128,
    "mamba_d_head": None,
    "mamba_n_groups": 1,
    "mamba_d_state": 256,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_conv_bias": True,
    "mamba_proj_bias": False,
    "time_step_limit": [0.0, math.inf],
}
_HYBRID: Final = LLAMA | _MAMBA2 | {"num_key_value_heads": 8, "rms_norm_eps": 1e-5, "mlp_bias": False}
_MAMBA: Final[dict[str, Any]] = {
    "state_size": 16,
    "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": True,
    "eos_token_id": 0,
    "expand": 2,
    "conv_kernel": 4,
    "use_bias": False,
    "use_conv_bias": True,
    "hidden_act": "silu",
    "time_step_rank": None,
}


def _limit(fields: Fields) -> None:
    """Set the limits of steps, whose infinity some files write as an object."""
    if fields["time_step_limit"] is not None:
        fields["time_step_limit"] = tuple(
            float(each["__float__"] if isinstance(each, dict) else each) for each in fields["time_step_limit"]
        )


def _mamba2_heads(fields: Fields) -> None:
    _limit(fields)
    if fields["mamba_d_head"] in (None, "auto"):
        width = fields.get("mamba_d_ssm") or fields["mamba_expand"] * fields["hidden_size"]
        fields["mamba_d_head"] = width // fields["mamba_n_heads"]


def _bamba(fields: Fields) -> None:
    _mamba2_heads(fields)
    full = fields["attn_layer_indices"] or ()
    kinds = ("linear_attention", "full_attention")
    fields["layer_types"] = [kinds[i in full] for i in range(fields["num_hidden_layers"])]


def _granite(fields: Fields) -> None:
    _mamba2_heads(fields)
    if fields["layer_types"] is None:
        fields["layer_types"] = ["linear_attention"] * fields["num_hidden_layers"]


def _falcon_h1(fields: Fields) -> None:
    _mamba2_heads(fields)
    for name, count in (("mlp_multipliers", 2), ("ssm_multipliers", 5)):
        if fields[name] is None:
            fields[name] = [1.0] * count


def _nemotron(fields: Fields) -> None:
    if fields["layer_types"] is None:
        pattern = fields.get("hybrid_override_pattern", "ME*-")
        fields["layer_types"] = [_LETTERS[letter] for letter in pattern]
    fields["num_hidden_layers"] = len(fields["layer_types"])


def _rank_of(name: str) -> Callable[[Fields], None]:
    """Return a rule for the inputs of the product that gives steps, whose number `name` may leave out."""

    def complete(fields: Fields) -> None:
        if fields[name] in (None, "auto"):
            fields[name] = math.ceil(fields["hidden_size"] / 16)
        if "expand" in fields:
            fields.setdefault("intermediate_size", int(fields["expand"] * fields["hidden_size"]))

    return complete


def _jamba(fields: Fields) -> None:
    _rank_of("mamba_dt_rank")(fields)
    layers = range(fields["num_hidden_layers"])
    for part in ("attn", "expert"):
        if fields[f"{part}_layer_offset"] >= fields[f"{part}_layer_period"]:
            raise UncommonConfigError(f"{part}_layer_offset")
    fields["layers_block_type"] = [
        "attention" if i % fields["attn_layer_period"] == fields["attn_layer_offset"] else "mamba" for i in layers
    ]
    fields["layers_num_experts"] = [
        fields["num_experts"] if i % fields["expert_layer_period"] == fields["expert_layer_offset"] else 1
        for i in layers
    ]


MAMBA: Final = {
    "mamba2": FamilyDefaults(
        fields={
            "num_heads": 128,
            "head_dim": 64,
            "state_size": 128,
            "layer_norm_epsilon": 1e-5,
            "tie_word_embeddings": False,
            "eos_token_id": 2,
            "conv_kernel": 4,
            "n_groups": 8,
            "use_bias": False,
            "use_conv_bias": True,
            "hidden_act": "silu",
            "time_step_limit": [0.0, math.inf],
        },
        complete=_limit,
        stated=WITHOUT_ATTENTION,
    ),
    "bamba": FamilyDefaults(
        fields=_HYBRID | {"attn_layer_indices": None}, complete=_bamba, rotated_share=0.5, kinds=LAYER_KINDS
    ),
    "granitemoehybrid": FamilyDefaults(
        fields=GRANITE
        | _MAMBA2
        | {
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 1024,
            "position_embedding_type": None,
            "layer_types": None,
        },
        complete=_granite,
        kinds=LAYER_KINDS,
    ),
    "falcon_h1": FamilyDefaults(
        fields=_HYBRID
        | {
            "mamba_d_ssm": 1024,
            "mamba_norm_before_gate": True,
            "mamba_rms_norm": False,
            "projectors_bias": False,
            "lm_head_multiplier": 1.0,
            "embedding_multiplier": 1.0,
            "mlp_multipliers": None,
            "key_multiplier": 1.0,
            "attention_out_multiplier": 1.0,
            "attention_in_multiplier": 1.0,
            "ssm_multipliers": None,
            "ssm_in_multiplier": 1.0,
            "ssm_out_multiplier": 1.0,
        },
        complete=_falcon_h1,
    ),
    "nemotron_h": FamilyDefaults(
        fields={
            "intermediate_size": 21504,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "tie_word_embeddings": False,
            "eos_token_id": 2,
            "layer_norm_epsilon": 1e-5,
            "mlp_hidden_act": "relu2",
            "mlp_bias": False,
            "layer_types": None,
            "ssm_state_size": 128,
            "mamba_num_heads": 128,
            "mamba_head_dim": 64,
            "mamba_hidden_act": "silu",
            "n_groups": 8,
            "conv_kernel": 4,
            "time_step_min": 0.001,
            "use_conv_bias": True,
            "use_bias": False,
            "n_routed_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 7688,
            "moe_shared_expert_intermediate_size": 7688,
            "moe_latent_size": None,
            "routed_scaling_factor": 1.0,
            "n_group": 1,
            "topk_group": 1,
            "norm_topk_prob": True,
        },
        aliases={
            "layers_block_type": "layer_types",
            "num_local_experts": "n_routed_experts",
            "mamba_n_groups": "n_groups",
            "mamba_d_conv": "conv_kernel",
            "mamba_dt_min": "time_step_min",
            "mamba_conv_bias": "use_conv_bias",
        },
        complete=_nemotron,
        kinds=(*LAYER_KINDS, "mlp", "moe"),
        stated=("vocab_size", "hidden_size", "num_attention_heads", "max_position_embeddings"),
    ),
    "mamba": FamilyDefaults(fields=_MAMBA, complete=_rank_of("time_step_rank"), stated=WITHOUT_ATTENTION),
    "falcon_mamba": FamilyDefaults(
        fields=_MAMBA | {"mixer_rms_eps": 1e-6}, complete=_rank_of("time_step_rank"), stated=WITHOUT_ATTENTION
    ),
    "jamba": FamilyDefaults(
        fields=LLAMA
        | {
            "num_key_value_heads": 8,
            "num_experts_per_tok": 2,
            "num_experts": 16,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "attn_layer_period": 8,
            "attn_layer_offset": 4,
            "mamba_d_state": 16,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            "mamba_dt_rank": None,
            "mamba_conv_bias": True,
            "mamba_proj_bias": False,
        },
        aliases={"num_local_experts": "num_experts"},
        complete=_jamba,
    ),
}
