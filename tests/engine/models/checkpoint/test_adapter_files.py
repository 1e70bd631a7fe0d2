"""Adapters' folders are read or rejected with an error that names the fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch_file

from service.engine.models.checkpoint.adapter_files import CONFIG, TENSORS, read_adapter
from service.generation.errors import AdapterRejected

STEM = "base_model.model.model.layers.0.self_attn.q_proj"
PLAIN: dict[str, Any] = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "lora_alpha": 4, "bias": "none"}
PAIR: dict[str, tuple[int, ...]] = {f"{STEM}.lora_A.weight": (2, 8), f"{STEM}.lora_B.weight": (8, 2)}


def write(folder: Path, config: object, shapes: dict[str, tuple[int, ...]]) -> Path:
    """Write an adapter whose numbers are all one."""
    (folder / CONFIG).write_text(json.dumps(config))
    save_file({name: np.ones(shape, np.float32) for name, shape in shapes.items()}, folder / TENSORS)
    return folder


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ({}, 2.0),
        ({"use_rslora": True}, 4 / 2**0.5),
        ({"alpha_pattern": {"q_proj": 6}}, 3.0),
        ({"alpha_pattern": {"proj": 6, r"layers\.\d+\.self_attn\.q_proj": 8}}, 4.0),
        ({"r": 64, "rank_pattern": {"self_attn.q_proj": 2}}, 2.0),
        ({"alpha_pattern": {r".*\.layers\.(1|[2-9])\..*": 6, r"^model\.layers\.(?:0|1)\..+_proj$": 8}}, 4.0),
    ],
)
def test_scale_is_alpha_over_rank_as_the_patterns_say(values: dict[str, Any], scale: float, tmp_path: Path) -> None:
    adapter = read_adapter(write(tmp_path, PLAIN | values, PAIR), 8)
    (low_rank,) = adapter.modules.values()
    assert list(adapter.modules) == ["model.layers.0.self_attn.q_proj"]
    assert adapter.rank == 2
    assert adapter.num_parameters == 32
    np.testing.assert_allclose(low_rank.up, scale, rtol=1e-6)
    np.testing.assert_array_equal(low_rank.down, 1)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another kind": ({"peft_type": "LOHA"}, "peft_type: 'LOHA' is not served; LORA is"),
    "another task": ({"task_type": "SEQ_CLS"}, "task_type: 'SEQ_CLS' is not served; CAUSAL_LM is"),
    "biases": ({"bias": "lora_only"}, "bias: 'lora_only' is not served; none is"),
    "own biases": ({"lora_bias": True}, "lora_bias: biases are not served: false is allowed"),
    "DoRA": ({"use_dora": True}, "use_dora: DoRA is not served: false is allowed"),
    "whole modules": ({"modules_to_save": ["lm_head"]}, "modules_to_save: whole modules are not served"),
    "a changed base": ({"init_lora_weights": "pissa_niter_4"}, "init_lora_weights: 'pissa_niter_4' changes the model"),
    "a rank above the limit": (
        {"r": 16},
        "r: 16 of model.layers.0.self_attn.q_proj exceeds engine.max_adapter_rank, 8",
    ),
    "no rank": ({"r": None}, "r must be a number, not None"),
    "half a rank": ({"r": 1.5}, "must be a whole number of at least 1, not 1.5"),
    "another rank": ({"r": 3}, "has the shapes [2, 8] and [8, 2], adapter_config.json the rank 3"),
    "a broken pattern": ({"rank_pattern": {"(": 2}}, "rank_pattern: '(' is no regular expression"),
    "an endless pattern": ({"rank_pattern": {r"([\w.]+)+!": 2}}, r"rank_pattern: '([\\w.]+)+!' has unsupported syntax"),
    "a long pattern": ({"alpha_pattern": {"a" * 513: 2}}, "has more than 512 characters"),
    "patterns that are none": ({"alpha_pattern": [1]}, "alpha_pattern must be an object of numbers"),
    "an infinite alpha": ({"lora_alpha": 1e300}, "lora_alpha must be a number, not 1e+300"),
    "a huge integer": ({"lora_alpha": 10**400}, "lora_alpha must be a number, not 1000"),
    "a huge rank": ({"rank_pattern": {"q_proj": 10**400}}, "rank_pattern.q_proj must be a number, not 1000"),
    "no number": ({"lora_alpha": float("nan")}, "lora_alpha must be a number, not nan"),
    "a list of tasks": ({"task_type": ["CAUSAL_LM"]}, "task_type: ['CAUSAL_LM'] is not served"),
    "a list of kinds": ({"peft_type": ["LORA"]}, "peft_type: ['LORA'] is not served"),
    "no alpha": ({"lora_alpha": "many"}, "lora_alpha must be a number, not 'many'"),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_configurations_are_refused_by_field(refused: str, tmp_path: Path) -> None:
    values, text = REFUSED[refused]
    with pytest.raises(AdapterRejected) as caught:
        read_adapter(write(tmp_path, PLAIN | values, PAIR), 8)
    assert text in str(caught.value)
    assert str(tmp_path) in str(caught.value)


TENSORS_REFUSED: dict[str, tuple[dict[str, tuple[int, ...]], str]] = {
    "nothing": ({}, "has no tensor that ends with .lora_A.weight"),
    "half a pair": ({f"{STEM}.lora_A.weight": (2, 8)}, f"{STEM}.lora_B.weight is missing"),
    "the other half": ({f"{STEM}.lora_B.weight": (8, 2)}, f"{STEM}.lora_A.weight is missing"),
    "an embedding": ({"base_model.model.model.embed_tokens.lora_embedding_A": (2, 8)}, "is not served"),
    "a whole module": (PAIR | {"base_model.model.lm_head.weight": (8, 8)}, "lm_head.weight is not served"),
    "a long name": ({f"base_model.model.{'a' * 1024}.lora_A.weight": (2, 8)}, "a name of more than 1024 characters"),
    "the head": (
        {"base_model.model.lm_head.lora_A.weight": (2, 8), "base_model.model.lm_head.lora_B.weight": (8, 2)},
        "lm_head: adapters of the embedding and of the head are not served",
    ),
}


@pytest.mark.parametrize("refused", TENSORS_REFUSED)
def test_tensors_are_refused_by_name(refused: str, tmp_path: Path) -> None:
    shapes, text = TENSORS_REFUSED[refused]
    with pytest.raises(AdapterRejected) as caught:
        read_adapter(write(tmp_path, PLAIN, shapes), 8)
    assert text in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000])
def test_what_is_no_configuration_is_refused(text: str, tmp_path: Path) -> None:
    write(tmp_path, PLAIN, PAIR)
    (tmp_path / CONFIG).write_text(text)
    with pytest.raises(AdapterRejected, match=CONFIG):
        read_adapter(tmp_path, 8)


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path, PLAIN, PAIR)
    (tmp_path / TENSORS).write_bytes(b"no tensors")
    with pytest.raises(AdapterRejected, match="can't be read as safetensors"):
        read_adapter(tmp_path, 8)
    (tmp_path / TENSORS).unlink()
    with pytest.raises(AdapterRejected, match="is missing; adapters are read as safetensors only"):
        read_adapter(tmp_path, 8)


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16])
def test_floating_types_are_read_as_their_numbers(kind: torch.dtype, tmp_path: Path) -> None:
    write(tmp_path, PLAIN, PAIR)
    save_torch_file({name: torch.full(shape, 1.5).to(kind) for name, shape in PAIR.items()}, tmp_path / TENSORS)
    (low_rank,) = read_adapter(tmp_path, 8).modules.values()
    np.testing.assert_array_equal(low_rank.down, np.full((2, 8), 1.5, np.float32))
    np.testing.assert_array_equal(low_rank.up, np.full((8, 2), 3, np.float32))


@pytest.mark.parametrize(
    ("kind", "name"),
    [(torch.float8_e4m3fn, "F8_E4M3"), (torch.float8_e5m2, "F8_E5M2"), (torch.int8, "I8"), (torch.int64, "I64")],
)
def test_other_types_are_refused_by_name(kind: torch.dtype, name: str, tmp_path: Path) -> None:
    """Their bits are not read as numbers, which would serve a wrong adapter."""
    write(tmp_path, PLAIN, PAIR)
    save_torch_file({name: torch.ones(shape).to(kind) for name, shape in PAIR.items()}, tmp_path / TENSORS)
    with pytest.raises(AdapterRejected, match=rf"{TENSORS}: .* has the type {name}; weights are F32, F16 or BF16"):
        read_adapter(tmp_path, 8)


@pytest.mark.parametrize(("number", "alpha"), [(float("nan"), 4), (float("-inf"), 4), (1e30, 1e30)])
def test_numbers_that_are_not_finite_are_refused(number: float, alpha: float, tmp_path: Path) -> None:
    """One of them would make every token's logits invalid; the scale may make finite numbers infinite."""
    write(tmp_path, PLAIN | {"lora_alpha": alpha}, PAIR)
    arrays = {name: np.full(shape, number, np.float32) for name, shape in PAIR.items()}
    save_file(arrays, tmp_path / TENSORS)
    with pytest.raises(AdapterRejected, match=r"model\.layers\.0\.self_attn\.q_proj has numbers that are not finite"):
        read_adapter(tmp_path, 8)
