"""Settings of GGUF files that no model can have are rejected by their keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.engine.loading.gguf.settings import GgufSettings
from service.engine.models.checkpoint.gguf.header import GgufHeader
from service.generation.errors import ModelLoadError

METADATA: dict[str, Any] = {
    "general.architecture": "qwen2",
    "qwen2.attention.head_count": 4,
    "qwen2.attention.head_count_kv": 2,
    "qwen2.embedding_length": 64,
    "qwen2.feed_forward_length": 96,
    "qwen2.block_count": 2,
    "qwen2.context_length": 512,
    "qwen2.attention.layer_norm_rms_epsilon": 1e-6,
    "tokenizer.ggml.tokens": ["a", "b", "c"],
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.chat_template": "{{ messages }}",
}


def settings_of(**changes: Any) -> GgufSettings:
    """Return the settings with changed values."""
    return GgufSettings(GgufHeader(Path("tiny.gguf"), METADATA | changes, {}))


def test_settings_are_those_of_the_metadata() -> None:
    config = settings_of().config("bfloat16")
    assert (config["hidden_size"], config["head_dim"], config["vocab_size"]) == (64, 16, 3)
    assert (config["eos_token_id"], config["bos_token_id"], config["rope_theta"]) == (2, None, 10_000.0)
    assert settings_of().other_files() == {
        "generation_config.json": '{"eos_token_id": [2]}',
        "chat_template.jinja": "{{ messages }}",
    }


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("general.architecture", "bert", "general.architecture is bert; supported are apertus, "),
        ("qwen2.block_count", 1 << 31, "qwen2.block_count must be an integer from 1 to 4096"),
        ("qwen2.block_count", 0, "qwen2.block_count must be an integer from 1 to 4096"),
        ("qwen2.embedding_length", 1 << 40, "qwen2.embedding_length must be an integer from 1 to 1048576"),
        ("qwen2.attention.head_count", np.array([4, 4]), "qwen2.attention.head_count must be an integer from 1"),
        ("qwen2.attention.head_count_kv", True, "qwen2.attention.head_count_kv must be an integer from 1"),
        ("qwen2.feed_forward_length", "96", "qwen2.feed_forward_length must be an integer from 1"),
        ("qwen2.attention.layer_norm_rms_epsilon", float("nan"), "layer_norm_rms_epsilon must be a number above 0"),
        ("qwen2.rope.freq_base", float("inf"), "qwen2.rope.freq_base must be a number above 0"),
        ("qwen2.rope.scaling.type", "yarn", "it has no qwen2.rope.scaling.factor"),
        ("qwen2.rope.scaling.type", "linear", "it has no qwen2.rope.scaling.factor"),
        ("qwen2.rope.scaling.factor", np.array([4.0, 4.0]), "qwen2.rope.scaling.factor must be a number above 0"),
        ("qwen2.rope.scaling.type", "ntk", "qwen2.rope.scaling.type ntk is not supported"),
        ("qwen2.rope.dimension_count", 8, "partial rotary positions are not supported"),
        ("tokenizer.ggml.tokens", "abc", "tokenizer.ggml.tokens must be a list of texts"),
        ("tokenizer.ggml.eos_token_id", 3, "tokenizer.ggml.eos_token_id must be an integer below 3"),
        ("tokenizer.ggml.bos_token_id", "a", "tokenizer.ggml.bos_token_id must be an integer below 3"),
        ("tokenizer.chat_template", 5, "tokenizer.chat_template must be a text"),
    ],
)
def test_invalid_values_are_rejected_by_their_keys(key: str, value: Any, message: str) -> None:
    with pytest.raises(ModelLoadError, match=message):
        _read(settings_of(**{key: value}))


def test_missing_values_are_rejected_by_their_keys() -> None:
    for key in METADATA.keys() - {
        "qwen2.attention.head_count_kv",
        "tokenizer.ggml.eos_token_id",
        "tokenizer.chat_template",
    }:
        metadata = {name: value for name, value in METADATA.items() if name != key}
        with pytest.raises(ModelLoadError, match=f"tiny.gguf: it has no {key}"):
            _read(GgufSettings(GgufHeader(Path("tiny.gguf"), metadata, {})))


@pytest.mark.parametrize(
    ("tokens", "ends"),
    [
        (["<eos>", "<end_of_turn>", "a"], [0, 1]),
        (["<|endoftext|>", "<|im_end|>", "<|end|>"], [0, 1, 2]),
        (["<|return|>", "<|end|>", "<|call|>"], [0, 2]),
    ],
)
def test_texts_end_at_tokens_that_llama_cpp_knows(tokens: list[str], ends: list[int]) -> None:
    """Gemma's files state one end token, and chats end with another; harmony's messages end within a text."""
    settings = settings_of(**{"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.eos_token_id": 0})
    assert settings.other_files()["generation_config.json"] == f'{{"eos_token_id": {ends}}}'


def test_sampling_defaults_are_those_of_the_file() -> None:
    values = {"temp": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.0, "penalty_repeat": 1.05, "sequence": "k", "xtc": 1}
    settings = settings_of(**{f"general.sampling.{name}": value for name, value in values.items()})
    assert json.loads(settings.other_files()["generation_config.json"]) == {
        "eos_token_id": [2],
        "temperature": 0.6,
        "top_k": 20,
        "top_p": 0.95,
        "min_p": 0.0,
        "repetition_penalty": 1.05,
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"qwen2.rope.scaling.alpha": 1000.0}, {"rope_type": "dynamic", "alpha": 1000.0, "factor": 1.0}),
        ({"qwen2.rope.scaling.factor": 4.0}, {"rope_type": "linear", "factor": 4.0}),
        ({"qwen2.rope.scale_linear": 2.0}, {"rope_type": "linear", "factor": 2.0}),
        ({"qwen2.rope.scaling.type": "linear", "qwen2.rope.scale_linear": 2.0}, {"rope_type": "linear", "factor": 2.0}),
        ({"qwen2.rope.scaling.type": "none", "qwen2.rope.scaling.factor": 4.0}, None),
        ({"qwen2.rope.scaling.factor": 0.0}, None),
    ],
)
def test_positions_are_scaled_as_llama_cpp_scales_them(values: dict[str, Any], expected: Any) -> None:
    """A factor without a kind is linear."""
    assert settings_of(**values).config("bfloat16").get("rope_scaling") == expected


def test_attention_over_latents_with_a_temperature_is_rejected() -> None:
    """Mistral Large 3 has the architecture of DeepSeek."""
    metadata = {key.replace("qwen2.", "deepseek2."): value for key, value in METADATA.items()}
    metadata |= {"general.architecture": "deepseek2", "deepseek2.attention.temperature_scale": 0.1}
    with pytest.raises(ModelLoadError, match=r"deepseek2\.attention\.temperature_scale is not supported"):
        _read(GgufSettings(GgufHeader(Path("tiny.gguf"), metadata, {})))


SSM = {"conv_kernel": 4, "state_size": 8, "group_count": 2, "time_step_rank": 4, "inner_size": 128}
SLIDING = {"attention.sliding_window": 8, "attention.sliding_window_pattern": np.array([True, False])}
HEADS = {"attention.key_length": 32, "attention.key_length_swa": 16}


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("gemma3n", {"attention.sliding_window": 8}, "attention.sliding_window_pattern must be a list of layers"),
        ("gemma3n", SLIDING, "it has no gemma3n.altup.num_inputs"),
        ("gemma3n", SLIDING | {"activation_sparsity_scale": np.array([1.0])}, "must be a list of 2 numbers"),
        ("gemma3n", SLIDING | {"feed_forward_length": "96"}, "gemma3n.feed_forward_length must be an integer from 1"),
        (
            "gemma3n",
            SLIDING | {"embedding_length_per_layer_input": 8},
            "it has no per_layer_token_embd.weight",
        ),
        ("gemma4", SLIDING, "it has no gemma4.attention.key_length_swa"),
        (
            "gemma4",
            SLIDING | HEADS | {"attention.sliding_window_pattern": np.array([True, True])},
            "attention.head_count_kv must be the same in all layers of a kind",
        ),
        (
            "gemma4",
            SLIDING | HEADS | {"rope.dimension_count_swa": 8},
            "rope.dimension_count_swa must be a head's width",
        ),
        (
            "gemma4",
            SLIDING | HEADS | {"attention.head_count_kv": np.array([1, -1])},
            "must be a list of integers from 0",
        ),
        ("jamba", {"attention.head_count_kv": np.array([1, 0, 1])}, "must be a list of 2 integers"),
        ("mamba", {"ssm.inner_size": 100}, "mamba.ssm.inner_size must be a multiple of 64"),
        ("mamba2", {"ssm.time_step_rank": 3}, "mamba2.ssm.inner_size must be a multiple of 3"),
        ("nemotron_h", {"feed_forward_length": np.array([0.5, 0.5])}, "must be a list of 2 integers"),
    ],
)
def test_invalid_values_of_layers_are_rejected_by_their_keys(kind: str, values: dict[str, Any], message: str) -> None:
    metadata = {key.replace("qwen2.", f"{kind}."): value for key, value in METADATA.items()}
    own = {f"ssm.{name}": size for name, size in SSM.items()} | values
    metadata |= {"general.architecture": kind} | {f"{kind}.{name}": value for name, value in own.items()}
    with pytest.raises(ModelLoadError, match=message):
        _read(GgufSettings(GgufHeader(Path("tiny.gguf"), metadata, {})))


@pytest.mark.parametrize(
    ("num_kv_heads", "message"), [([1, 1, 0, 1], "the layers with attention must have a period"), ([0, 1, 0, 1], "")]
)
def test_layers_of_jamba_with_attention_have_a_period(num_kv_heads: list[int], message: str) -> None:
    metadata = {key.replace("qwen2.", "jamba."): value for key, value in METADATA.items()}
    metadata |= {"general.architecture": "jamba"} | {f"jamba.ssm.{name}": size for name, size in SSM.items()}
    metadata |= {"jamba.block_count": 4, "jamba.attention.head_count_kv": np.array(num_kv_heads)}
    settings = GgufSettings(GgufHeader(Path("tiny.gguf"), metadata, {}))
    if message:
        with pytest.raises(ModelLoadError, match=message):
            _read(settings)
    else:
        config = settings.config("float32")
        assert (config["attn_layer_period"], config["attn_layer_offset"], config["num_experts"]) == (2, 1, 1)


def _read(settings: GgufSettings) -> None:
    settings.config("bfloat16")
    settings.other_files()
