"""The defaults of Gemma 3n and 4, some of whose layers differ from the others in sizes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

from service.engine.models.checkpoint.families.family_defaults import (
    STATED,
    FamilyDefaults,
    Fields,
    UncommonConfigError,
    every_nth_is_full,
)

_GEMMA: Final[dict[str, Any]] = {
    "hidden_activation": "gelu_pytorch_tanh",
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "attention_bias": False,
    "eos_token_id": 1,
    "head_dim": 256,
    "hidden_size_per_layer_input": 256,
    "layer_types": None,
    "sliding_window": 512,
    "vocab_size_per_layer_input": 262_144,
}
_GEMMA4_ROPE: Final = {
    "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1_000_000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
}
_SIZES: Final = ("head_dim", "num_key_value_heads")  # that layers of Gemma 4 can have of their own


def _gemma3n(fields: Fields) -> None:
    num_layers = fields["num_hidden_layers"]
    every_nth_is_full(5)(fields)
    if isinstance(fields["intermediate_size"], int):
        fields["intermediate_size"] = [fields["intermediate_size"]] * num_layers
    if fields["activation_sparsity_pattern"] is None:
        num_sparse = 10 if num_layers > 10 else 0
        fields["activation_sparsity_pattern"] = [0.95] * num_sparse + [0.0] * (num_layers - num_sparse)


def _gemma4(fields: Fields) -> None:
    every_nth_is_full(6)(fields)
    if fields["use_bidirectional_attention"] == "all":
        raise UncommonConfigError("use_bidirectional_attention")
    kinds = fields["layer_types"] = [*fields["layer_types"][:-1], "full_attention"]
    of_full = {"head_dim": fields.pop("global_head_dim", 512)}
    num_heads = fields.pop("num_global_key_value_heads", None)
    if fields["attention_k_eq_v"] and num_heads is not None:
        of_full["num_key_value_heads"] = num_heads
    given = fields.get("per_layer_config")
    if given is None:
        given = {i: of_full for i, kind in enumerate(kinds) if kind == "full_attention"}
    own = {int(layer): sizes for layer, sizes in given.items()}
    if not all(set(sizes) <= set(_SIZES) for sizes in own.values()):
        raise UncommonConfigError("per_layer_config")
    usual = {name: fields[name] for name in ("hidden_size", "num_attention_heads", *_SIZES)}
    fields["per_layer_config"] = [SimpleNamespace(**usual | own.get(i, {})) for i in range(len(kinds))]


GEMMA4: Final = {
    "gemma3n_text": FamilyDefaults(
        fields=_GEMMA
        | {
            "num_key_value_heads": 2,
            "intermediate_size": 16_384,
            "final_logit_softcapping": 30.0,
            "altup_active_idx": 0,
            "altup_correct_scale": True,
            "altup_num_inputs": 4,
            "num_kv_shared_layers": 15,
            "laurel_rank": 64,
            "activation_sparsity_pattern": None,
        },
        complete=_gemma3n,
        stated=tuple(name for name in STATED if name != "intermediate_size"),
        rope_theta=1_000_000.0,
        local_theta=10_000.0,
        local_theta_name="rope_local_base_freq",
    ),
    "gemma4_text": FamilyDefaults(
        fields=_GEMMA
        | {
            "num_key_value_heads": 4,
            "final_logit_softcapping": None,
            "use_bidirectional_attention": None,
            "attention_k_eq_v": False,
            "num_kv_shared_layers": 0,
            "enable_moe_block": False,
            "num_experts": None,
            "top_k_experts": None,
            "moe_intermediate_size": None,
            "use_double_wide_mlp": False,
        },
        complete=_gemma4,
        rope=_GEMMA4_ROPE,
        rope_theta=1_000_000.0,
        local_theta=10_000.0,
        has_own_sizes=True,
    ),
}
