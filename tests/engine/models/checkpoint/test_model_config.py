"""config.json is read as transformers reads it, and unusual files are left to transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from service.engine.models.checkpoint.model_config import DecoderConfig, read_model_config, read_transformers_config
from service.engine.models.checkpoint.rope import rope_frequencies
from service.engine.models.native.backend import native_unsupported_reason
from service.generation.errors import ModelLoadError
from tests.engine.folders.tiny_models import CONFIGS, LEAN, config

SIZES: dict[str, Any] = {
    "vocab_size": 101,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "eos_token_id": [1, 2],
    "rope_theta": 5e5,
}
# A published file of transformers 4 with all fields that it may have.
USUAL: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama"},
    "llama, old names": {"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2.0}, "mlp_bias": True},
    "llama3": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "head_dim": 32,
        "rope_scaling": {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
            "rope_type": "llama3",
        },
    },
    "mistral": {"model_type": "mistral", "sliding_window": 11},
    "mistral without a window": {"model_type": "mistral", "sliding_window": None},
    "qwen2": {"model_type": "qwen2", "sliding_window": 11, "use_sliding_window": False, "eos_token_id": None},
    "yarn": {"model_type": "qwen2", "rope_scaling": {"type": "yarn", "factor": 4.0}, "rope_theta": 10000},
    "qwen3": {"model_type": "qwen3", "head_dim": 24, "attention_bias": True, "rope_scaling": None},
}
UNUSUAL: dict[str, dict[str, Any]] = {
    "another type": {"model_type": "opt"},
    "windows": {"model_type": "qwen2", "sliding_window": 11, "use_sliding_window": True, "max_window_layers": 1},
    "layers of two kinds": {
        "model_type": "qwen3",
        "head_dim": 16,
        "layer_types": ["full_attention"] * 2 + ["sliding_attention"],
    },
    "no window told": {"model_type": "mistral"},
    "no head size": {"model_type": "qwen3"},
    "no base": {"model_type": "llama", "rope_theta": ...},
    "another rope": {"model_type": "llama", "rope_scaling": {"type": "dynamic", "factor": 2.0}},
    "no ties told": {"model_type": "llama", "tie_word_embeddings": ...},
}
FIELDS = [name for name in DecoderConfig.__slots__ if name not in {"rope_parameters", "architectures"}]


def write(folder: Path, **values: Any) -> Path:
    said = {name: value for name, value in {**SIZES, **values}.items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(said))
    return folder


def assert_same(folder: Path) -> None:
    ours, theirs = read_model_config(folder), read_transformers_config(folder)
    assert isinstance(ours, DecoderConfig)
    implied = {"sliding_window": None, "head_dim": theirs.hidden_size // theirs.num_attention_heads}
    for name in FIELDS:
        assert getattr(ours, name) == getattr(theirs, name, implied.get(name, False)), name
    assert ours.architectures[0] in {*(theirs.architectures or [])} | {theirs.model_type}
    assert {name: ours.rope_parameters[name] for name in theirs.rope_parameters} == theirs.rope_parameters
    for dtype in ("float32", "float16"):
        assert native_unsupported_reason(ours, dtype, "cpu", 16) == native_unsupported_reason(theirs, dtype, "cpu", 16)


@pytest.mark.parametrize("name", USUAL)
def test_usual_file_is_read_as_transformers_reads_it(name: str, tmp_path: Path) -> None:
    """Every field is equal, whether given or implied."""
    assert_same(write(tmp_path, **USUAL[name]))


@pytest.mark.parametrize("name", LEAN)
def test_file_that_transformers_writes_is_usual(name: str, tmp_path: Path) -> None:
    """The file of each model that needs no modules of transformers is usual."""
    CONFIGS[name]().save_pretrained(tmp_path)
    assert_same(tmp_path)


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_file_is_left_to_transformers(name: str, tmp_path: Path) -> None:
    """A file is unusual if it needs a default or a special layer that is not known here."""
    assert isinstance(read_model_config(write(tmp_path, **UNUSUAL[name])), transformers.PretrainedConfig)


@pytest.mark.parametrize("values", [{"vocab_size": "many"}, {"num_attention_heads": 0}, {"hidden_size": -1.5}])
def test_wrong_file_is_refused(values: dict[str, Any], tmp_path: Path) -> None:
    """The error names the file."""
    with pytest.raises(ModelLoadError, match=r"config\.json can't be used"):
        read_model_config(write(tmp_path, model_type="llama", **values))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model_type": "llama", "num_hidden_layers": 1 << 60}, "num_hidden_layers must be at most 4096, not 1152921"),
        ({"model_type": "granite", "hidden_size": 1 << 40}, "hidden_size must be at most 1048576, not 1099511627776"),
        ({"model_type": "opt", "num_hidden_layers": 1e30}, r"num_hidden_layers must be at most 4096, not 1e\+30"),
        ({"model_type": "gemma3", "text_config": {"head_dim": 1 << 33}}, "head_dim must be at most 1048576, not 8589"),
    ],
)
def test_a_size_that_no_model_has_is_refused_by_name(values: dict[str, Any], message: str, tmp_path: Path) -> None:
    """No list of that length is made."""
    with pytest.raises(ModelLoadError, match=message):
        read_model_config(write(tmp_path, **values))


def test_a_field_that_makes_no_plan_is_a_reason(tmp_path: Path) -> None:
    found = read_model_config(write(tmp_path, model_type="granite", logits_scaling=0))
    assert native_unsupported_reason(found, "float32", "cpu", 16) == (
        "the configuration can't be read: ZeroDivisionError('division by zero')"
    )


CODE = {"AutoConfig": "configuration_mine.MyConfig", "AutoModelForCausalLM": "modeling_mine.MyModel"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"auto_map": CODE},
            r"config\.json can't be used: the model_type 'mine' needs Python code .* never run; ",
        ),
        ({}, r"config\.json can't be used: the model_type 'mine' is not supported; docs/models\.md lists"),
    ],
)
def test_unknown_model_type_is_one_line(
    values: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to do, and nobody is asked on standard input whether to run the folder's code."""
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ModelLoadError, match=message) as raised:
        read_model_config(write(tmp_path, model_type="mine", **values))
    assert "\n" not in str(raised.value)
    assert "trust_remote_code" not in str(raised.value)


def test_a_known_type_is_read_without_the_code_of_its_folder(tmp_path: Path) -> None:
    """Code of the folder is not run, although config.json names some."""
    assert isinstance(read_model_config(write(tmp_path, model_type="llama", auto_map=CODE)), DecoderConfig)
    config = read_model_config(write(tmp_path, model_type="opt", auto_map=CODE))
    assert isinstance(config, transformers.OPTConfig)


ROPES: dict[str, dict[str, Any]] = {
    "linear": {"factor": 4.0},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 32},
    "yarn with factors": {
        "factor": 40.0,
        "original_max_position_embeddings": 4096,
        "mscale": 1.0,
        "mscale_all_dim": 0.5,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
        "truncate": False,
    },
    "yarn with an attention factor": {"factor": 2.0, "original_max_position_embeddings": 64, "attention_factor": 0.7},
}


@pytest.mark.parametrize("name", ROPES)
@pytest.mark.parametrize("head_dim", [16, 128])
def test_rope_frequencies_are_those_of_transformers(name: str, head_dim: int) -> None:
    """The frequencies of each supported scaling are equal up to float32's last bits."""
    kind = name.partition(" ")[0]
    rope = {"rope_type": kind, "rope_theta": 5e5, **ROPES[name]}
    sizes = {key: value for key, value in SIZES.items() if key != "rope_theta"} | {"max_position_embeddings": 128}
    model = config("llama", **sizes, head_dim=head_dim, rope_parameters=rope)
    expected, expected_factor = ROPE_INIT_FUNCTIONS[kind](model, torch.device("cpu"))
    frequencies, factor = rope_frequencies(model, head_dim)
    np.testing.assert_allclose(frequencies, expected.numpy(), rtol=2e-6)
    assert factor == pytest.approx(expected_factor)
