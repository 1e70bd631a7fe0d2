"""config.json of types with layer plans, read with and without transformers: both give the same plan."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import transformers

from service.engine.models.checkpoint.families.family_config import FAMILY_DEFAULTS, FamilyConfig, family_config
from service.engine.models.checkpoint.model_config import read_model_config
from service.engine.models.checkpoint.rope import max_stable_positions
from service.engine.models.plans.families.table import FAMILIES, plan_of
from service.engine.models.plans.plan import DecoderPlan, PlanUnsupportedError
from tests.models.shapes import small

SIZES = {
    "vocab_size": 101,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 7,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
}
# Sizes that don't fit the defaults of a type's other fields.
OWN_SIZES: dict[str, dict[str, Any]] = {"mamba2": {"num_heads": 4, "head_dim": 32}}
LONGROPE = {"type": "longrope", "short_factor": [1.5] * 8, "long_factor": [4.0] * 8}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
# Files that older versions of transformers wrote, and uncommon ones.
FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "apertus, rope_theta": ("apertus", {"rope_theta": 5e5}),
    "bamba, attention": ("bamba", {"attn_layer_indices": [2, 5], "mamba_d_head": "auto", "time_step_limit": None}),
    "cohere2, pattern": ("cohere2", {"sliding_window_pattern": 3}),
    "cwm, rotation": ("cwm", {"sliding_window": 9, "rope_scaling": LLAMA3 | {"rope_theta": 1e5}}),
    "dots1": (
        "dots1",
        {"n_shared_experts": 1, "n_routed_experts": 8, "num_experts_per_tok": 2, "max_window_layers": 3},
    ),
    "ernie4_5_moe": ("ernie4_5_moe", {"num_experts": 8, "moe_k": 3, "moe_layer_interval": 2}),
    "exaone4, no window": ("exaone4", {"sliding_window": None, "layer_types": ["full_attention"] * 7}),
    "exaone4, pattern": ("exaone4", {"sliding_window_pattern": 2, "num_key_value_heads": 2}),
    "exaone4, pattern of letters": (
        "exaone4",
        {"sliding_window_pattern": "LLLG", "layer_types": ["sliding_attention"] * 3 + ["full_attention"] * 4},
    ),
    "exaone_moe, pattern of letters": (
        "exaone_moe",
        {"sliding_window_pattern": "LLLG", "layer_types": ["sliding_attention"] * 3 + ["full_attention"] * 4},
    ),
    "exaone_moe": ("exaone_moe", {"num_experts": 8, "first_k_dense_replace": 2, "layer_types": None}),
    "falcon_h1, sizes": ("falcon_h1", {"mamba_d_ssm": None, "mamba_n_heads": 4, "mamba_rms_norm": True}),
    "falcon_mamba, rank": ("falcon_mamba", {"time_step_rank": "auto", "expand": 3}),
    "falcon": ("falcon", {"multi_query": False, "bias": True, "rope_theta": 5e4}),
    "gemma, old activation": ("gemma", {"hidden_act": "gelu", "hidden_activation": None}),
    "gemma2, untied": ("gemma2", {"tie_word_embeddings": False, "query_pre_attn_scalar": 144}),
    "gemma3_text, both directions": ("gemma3_text", {"use_bidirectional_attention": True, "sliding_window": 12}),
    "gemma3_text, old rotation": (
        "gemma3_text",
        {
            "rope_theta": 2e6,
            "rope_local_base_freq": 2e4,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
            "sliding_window_pattern": 3,
            "sliding_window": 17,
        },
    ),
    "gemma3n_text": (
        "gemma3n_text",
        {
            "intermediate_size": [96] * 6 + [64],
            "activation_sparsity_pattern": [0.95, 0.5] + [0.0] * 5,
            "num_kv_shared_layers": 1,
            "rope_local_base_freq": 2e4,
            "rope_theta": 2e6,
        },
    ),
    "gemma4_text": (
        "gemma4_text",
        {
            "num_kv_shared_layers": 1,
            "attention_k_eq_v": True,
            "global_head_dim": 64,
            "num_global_key_value_heads": 2,
            "layer_types": ["full_attention", "sliding_attention"] * 3 + ["sliding_attention"],
        },
    ),
    "gemma4_text, experts": (
        "gemma4_text",
        {"enable_moe_block": True, "num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 32},
    ),
    "gemma4_text, without inputs of layers": ("gemma4_text", {"hidden_size_per_layer_input": 0}),
    "glm, no share": ("glm", {"partial_rotary_factor": 1.0, "eos_token_id": [1, 2]}),
    "gpt_neox, old rotation": ("gpt_neox", {"rotary_pct": 0.5, "rotary_emb_base": 5e4, "rope_theta": 7.0}),
    "gpt_oss, layers": ("gpt_oss", {"layer_types": ["full_attention"] * 7, "rope_scaling": {"rope_type": "default"}}),
    "granite_swa, bases": ("granite_swa", {"layer_rope_theta": [0, 1e4, 1e4, 1e4, 0, 5e5, 1e4]}),
    "granitemoehybrid, old names": (
        "granitemoehybrid",
        {"layer_types": ["mamba", "attention"] * 3 + ["mamba"], "num_local_experts": 0, "rope_theta": 5e5},
    ),
    "hunyuan_v1_dense, stretched": (
        "hunyuan_v1_dense",
        {"head_dim": 16, "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32}},
    ),
    "hunyuan_v1_moe, chosen by layer": ("hunyuan_v1_moe", {"moe_topk": [2, 1, 2, 3, 2, 2, 1], "num_experts": 4}),
    "hunyuan_v1_moe": ("hunyuan_v1_moe", {"num_experts_per_tok": 2, "num_experts": 4}),
    "hyperclovax": ("hyperclovax", {"attention_multiplier": None, "head_dim": 32}),
    "internlm3, old names": ("internlm3", {"qkv_bias": True, "bias": True, "head_dim": None}),
    "minimax, factors": ("minimax", {"mlp_alpha_factor": 3.55, "linear_attn_beta_factor": 2, "head_dim": 32}),
    "minimax_m2, first files": ("minimax_m2", {"rotary_dim": 64, "num_local_experts": 8, "num_experts_per_tok": 2}),
    "jamba, periods": ("jamba", {"attn_layer_period": 3, "attn_layer_offset": 1, "num_experts": 1}),
    "lfm2, old names": (
        "lfm2",
        {"full_attn_idxs": [1, 4], "block_ff_dim": 80, "tie_embedding": False, "rope_theta": 5e5, "conv_bias": True},
    ),
    "nemotron_h, pattern": (
        "nemotron_h",
        {"hybrid_override_pattern": "M-ME*-M", "mamba_n_groups": 4, "mamba_dt_min": 0.01, "n_shared_experts": 1},
    ),
    "nemotron": ("nemotron", {"partial_rotary_factor": 0.25}),
    "olmo3, old rotation": ("olmo3", {"rope_theta": 1e4, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    "olmo3, yarn": (
        "olmo3",
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}},
    ),
    "phi3, longrope": ("phi3", {"rope_scaling": LONGROPE, "original_max_position_embeddings": 64, "rope_theta": 5e3}),
    "phi3, window": ("phi3", {"sliding_window": 33, "num_key_value_heads": 2, "partial_rotary_factor": 0.5}),
    "qwen2_moe, windows": ("qwen2_moe", {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 4}),
    "qwen3_next, pattern": ("qwen3_next", {"full_attention_interval": 3, "partial_rotary_factor": 0.5}),
    "qwen3_moe": ("qwen3_moe", {"num_experts": 8, "mlp_only_layers": [1], "decoder_sparse_step": 2}),
    "smollm3, windows": ("smollm3", {"use_sliding_window": True, "sliding_window": 9, "no_rope_layer_interval": 2}),
    "stablelm": ("stablelm", {"use_qkv_bias": True, "num_key_value_heads": 4}),
    "starcoder2, window": ("starcoder2", {"sliding_window": 9, "use_bias": False}),
}
BY_TRANSFORMERS: dict[str, dict[str, Any]] = {
    "a size is missing": {"hidden_size": None},
    "a wrong type": {"rms_norm_eps": "1e-6"},
    "a flag that is a number": {"attention_bias": 1},
    "too few layer types": {"layer_types": ["full_attention"]},
    "an unknown layer type": {"layer_types": ["chunked_attention"] * 7},
    "layers that differ": {"per_layer_config": {}},
}


def plan_or_none(config: Any) -> DecoderPlan | None:
    try:
        return plan_of(config)
    except PlanUnsupportedError:
        return None


def assert_equal(raw: dict[str, Any]) -> None:
    """Assert that both readings of a file have the same plan and the same other fields that the product reads."""
    theirs = transformers.CONFIG_MAPPING[raw["model_type"]].from_dict(copy.deepcopy(raw))
    ours = family_config(copy.deepcopy(raw))
    assert ours is not None
    assert plan_or_none(ours) == plan_or_none(theirs)
    assert max_stable_positions(ours) == max_stable_positions(theirs)
    for name in ("vocab_size", "max_position_embeddings", "eos_token_id", "architectures", "model_type"):
        assert getattr(ours, name, None) == getattr(theirs, name, None), name


@pytest.mark.parametrize("kind", FAMILY_DEFAULTS)
def test_a_whole_file_gives_the_plan_of_transformers(kind: str) -> None:
    """A file that transformers writes has the same plan."""
    config = small(kind)
    assert plan_or_none(config) is not None
    assert_equal(json.loads(json.dumps(config.to_dict())))


@pytest.mark.parametrize("kind", FAMILY_DEFAULTS)
def test_what_a_file_leaves_out_has_the_defaults_of_transformers(kind: str) -> None:
    """A file with nothing but sizes has the same plan."""
    assert_equal({"model_type": kind, **SIZES, **OWN_SIZES.get(kind, {})})


@pytest.mark.parametrize("name", FILES)
def test_older_and_uncommon_files_give_the_plan_of_transformers(name: str) -> None:
    kind, fields = FILES[name]
    assert_equal({"model_type": kind, **SIZES, **fields})


@pytest.mark.parametrize("kind", ["lfm2"])
def test_a_required_size_may_have_its_other_name(kind: str) -> None:
    """LFM2's published files have no intermediate_size."""
    sizes = {name: size for name, size in SIZES.items() if name != "intermediate_size"}
    assert_equal({"model_type": kind, **sizes, "block_ff_dim": 96, "full_attn_idxs": [1, 4]})
    assert family_config({"model_type": kind, **sizes}) is None


@pytest.mark.parametrize("name", BY_TRANSFORMERS)
def test_other_files_are_left_to_transformers(name: str) -> None:
    assert family_config({"model_type": "granite", **SIZES, **BY_TRANSFORMERS[name]}) is None


def test_the_types_with_defaults_have_plans(tmp_path: Path) -> None:
    """A common file of each type is read without transformers."""
    assert set(FAMILY_DEFAULTS) <= set(FAMILIES)
    for kind in FAMILY_DEFAULTS:
        (tmp_path / "config.json").write_text(json.dumps(small(kind).to_dict()), encoding="utf-8")
        assert isinstance(read_model_config(tmp_path), FamilyConfig), kind
