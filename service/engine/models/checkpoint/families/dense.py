"""The defaults of types with RMS norms and without experts, except for those of Gemma."""

from __future__ import annotations

from typing import Any, Final

from service.engine.models.checkpoint.families.family_defaults import (
    FamilyDefaults,
    Fields,
    UncommonConfigError,
    every_nth_is_full,
    first_of_four_is_full,
)

LLAMA: Final[dict[str, Any]] = {
    "num_key_value_heads": None,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "eos_token_id": 2,
}
_MULTIPLIERS: Final = {
    "attention_multiplier": 1.0,
    "embedding_multiplier": 1.0,
    "logits_scaling": 1.0,
    "residual_multiplier": 1.0,
}
GRANITE: Final = LLAMA | _MULTIPLIERS
_MINISTRAL3_ROPE: Final = {
    "rope_type": "yarn",
    "rope_theta": 1_000_000.0,
    "factor": 16.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
    "original_max_position_embeddings": 16_384,
}
_WITHOUT_BIAS: Final = {name: value for name, value in LLAMA.items() if name != "attention_bias"}
_GLM: Final = LLAMA | {
    "head_dim": 128,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1.5625e-07,
    "attention_bias": True,
    "eos_token_id": None,
}
_OLMO: Final = LLAMA | {"eos_token_id": 50_279}
_CWM_ROPE: Final = {
    "rope_theta": 1_000_000.0,
    "factor": 16.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}
_APERTUS_ROPE: Final = {
    "rope_type": "llama3",
    "rope_theta": 12_000_000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}


def _glm(fields: Fields) -> None:
    if fields["eos_token_id"] is None:
        fields["eos_token_id"] = [151_329, 151_336, 151_338]


def _cwm(fields: Fields) -> None:
    first_of_four_is_full(fields)
    if not fields["sliding_window"]:
        raise UncommonConfigError("sliding_window")
    if fields["eos_token_id"] is None:
        fields["eos_token_id"] = [128_001, 128_008, 128_009]


def _exaone4(fields: Fields) -> None:
    every_nth_is_full(4, "sliding_window_pattern" if fields["sliding_window"] is not None else "sliding_window")(fields)


def granite_swa(fields: Fields) -> None:
    """Set the types of Granite's sliding layers, and the base of each layer's rotation."""
    first_of_four_is_full(fields)
    if fields["layer_rope_theta"] is None:
        fields["layer_rope_theta"] = [fields["rope_parameters"]["rope_theta"]] * fields["num_hidden_layers"]


def _hyperclovax(fields: Fields) -> None:
    if fields["attention_multiplier"] is None:
        head_dim = fields["head_dim"] or fields["hidden_size"] // fields["num_attention_heads"]
        fields["attention_multiplier"] = head_dim**-0.5


def _smollm3(fields: Fields) -> None:
    if fields["no_rope_layers"] is None:
        interval = fields["no_rope_layer_interval"]
        fields["no_rope_layers"] = [int((i + 1) % interval != 0) for i in range(fields["num_hidden_layers"])]
    if fields["layer_types"] is None:
        slides = fields["use_sliding_window"] and fields["sliding_window"] is not None
        fields["layer_types"] = [
            "sliding_attention" if slides and not is_rotated else "full_attention"
            for is_rotated in fields["no_rope_layers"]
        ]


DENSE: Final = {
    "apertus": FamilyDefaults(
        fields=LLAMA | {"hidden_act": "xielu", "rms_norm_eps": 1e-5}, rope_theta=12_000_000.0, rope=_APERTUS_ROPE
    ),
    "arcee": FamilyDefaults(
        fields=LLAMA
        | {"head_dim": None, "hidden_act": "relu2", "rms_norm_eps": 1e-5, "mlp_bias": False, "eos_token_id": 128_001}
    ),
    "bitnet": FamilyDefaults(
        fields=LLAMA | {"num_key_value_heads": 5, "hidden_act": "relu2", "rms_norm_eps": 1e-5, "eos_token_id": 128_001},
        rope_theta=500_000.0,
    ),
    "cwm": FamilyDefaults(
        fields=_WITHOUT_BIAS
        | {
            "head_dim": 128,
            "num_key_value_heads": 8,
            "rms_norm_eps": 1e-5,
            "mlp_bias": False,
            "layer_types": None,
            "sliding_window": 8192,
            "eos_token_id": None,
        },
        complete=_cwm,
        rope_theta=1_000_000.0,
        rope=_CWM_ROPE,
    ),
    "ernie4_5": FamilyDefaults(
        fields=_WITHOUT_BIAS
        | {
            "head_dim": 128,
            "num_key_value_heads": 2,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": True,
            "use_bias": False,
        },
        rope_theta=500_000.0,
    ),
    "exaone4": FamilyDefaults(
        fields=_WITHOUT_BIAS
        | {
            "num_key_value_heads": 32,
            "rms_norm_eps": 1e-5,
            "layer_types": None,
            "sliding_window": 4096,
        },
        complete=_exaone4,  # sliding_window_pattern may be letters, which are ignored with layer_types
    ),
    "glm": FamilyDefaults(fields=_GLM, complete=_glm, rotated_share=0.5),
    "glm4": FamilyDefaults(fields=_GLM, complete=_glm, rotated_share=0.5),
    "granite": FamilyDefaults(fields=GRANITE | {"mlp_bias": False}),
    "granite_swa": FamilyDefaults(
        fields=GRANITE
        | {
            "num_key_value_heads": 4,
            "rms_norm_eps": 1e-5,
            "mlp_bias": False,
            "tie_word_embeddings": True,
            "eos_token_id": 100_257,
            "layer_rope_theta": None,
            "layer_types": None,
            "sliding_window": 128,
        },
        complete=granite_swa,
    ),
    "helium": FamilyDefaults(
        fields=LLAMA | {"head_dim": 128, "num_key_value_heads": 20, "rms_norm_eps": 1e-8, "mlp_bias": False},
        rope_theta=100_000.0,
    ),
    "hunyuan_v1_dense": FamilyDefaults(fields=LLAMA | {"head_dim": None, "rms_norm_eps": 1e-5}),
    "hyperclovax": FamilyDefaults(
        fields=GRANITE | {"attention_multiplier": None, "head_dim": None, "mlp_bias": False, "use_post_norm": True},
        complete=_hyperclovax,
    ),
    "internlm3": FamilyDefaults(
        fields=LLAMA | {"head_dim": 128, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "mlp_bias": False},
        aliases={"qkv_bias": "attention_bias", "bias": "mlp_bias"},
    ),
    "iquestcoder": FamilyDefaults(
        fields=LLAMA | {"head_dim": 128, "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "mlp_bias": False}
    ),
    "ministral": FamilyDefaults(
        fields=_WITHOUT_BIAS | {"head_dim": None, "num_key_value_heads": 8, "layer_types": None, "sliding_window": 4096}
    ),
    "ministral3": FamilyDefaults(
        fields=_WITHOUT_BIAS
        | {"head_dim": 128, "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "sliding_window": None},
        rope=_MINISTRAL3_ROPE,
    ),
    "olmo2": FamilyDefaults(fields=_OLMO | {"rms_norm_eps": 1e-5}),
    "olmo3": FamilyDefaults(
        fields=_OLMO | {"rms_norm_eps": 1e-5, "layer_types": None, "sliding_window": 4096},
        complete=every_nth_is_full(4),
        rope_theta=500_000.0,
        local_theta=500_000.0,
    ),
    "phi3": FamilyDefaults(
        fields=_WITHOUT_BIAS
        | {
            "rms_norm_eps": 1e-5,
            "original_max_position_embeddings": 4096,
            "sliding_window": None,
            "eos_token_id": 32_000,
        },
        rotated_share=1.0,
    ),
    "seed_oss": FamilyDefaults(
        fields=LLAMA
        | {
            "head_dim": 128,
            "num_key_value_heads": 8,
            "attention_bias": True,
            "attention_out_bias": False,
            "mlp_bias": False,
        }
    ),
    "smollm3": FamilyDefaults(
        fields=LLAMA
        | {
            "num_key_value_heads": 4,
            "mlp_bias": False,
            "tie_word_embeddings": True,
            "eos_token_id": 128_001,
            "layer_types": None,
            "no_rope_layers": None,
            "no_rope_layer_interval": 4,
            "use_sliding_window": False,
            "sliding_window": None,
        },
        complete=_smollm3,
        rope_theta=2_000_000.0,
    ),
}
