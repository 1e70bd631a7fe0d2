"""Logits with adapters equal PEFT's, with any other sequences in the batch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from service.engine.models.checkpoint.adapter_files import Adapter, LowRank, read_adapter
from service.engine.models.interface.backend import Backend
from service.generation.errors import AdapterRejected
from tests.engine.folders import peft_adapters, tiny_models
from tests.engine.folders.tiny_models import Part, tokens

MAX_RANK = 64
TOLERANCE = 1e-4


@pytest.fixture(scope="module", params=["llama-biases", "qwen3-tied", "mistral-window"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp(request.param)
    tiny_models.save(request.param, folder)
    return folder


def assert_close(logits: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(logits, expected, atol=TOLERANCE, rtol=TOLERANCE)


def put(backend: Backend[Any], slot: int, folder: Path) -> None:
    backend.put_adapter(slot, read_adapter(folder, MAX_RANK))


@pytest.mark.parametrize("shape", peft_adapters.SHAPES)
def test_logits_equal_those_of_peft_merged(base: Path, shape: str, tmp_path: Path) -> None:
    adapter = peft_adapters.save_adapter(base, tmp_path, **peft_adapters.SHAPES[shape])
    backend = tiny_models.load(base)
    put(backend, 0, adapter)
    token_ids = tokens(20)
    (logits,) = tiny_models.run(backend, [Part(token_ids, 0, 20, [2, 0, 1], adapter=0)])
    assert_close(logits, peft_adapters.merged_reference(base, adapter, token_ids))


@pytest.mark.slow
def test_two_adapters_and_the_base_share_a_batch(base: Path, tmp_path: Path) -> None:
    first = peft_adapters.save_adapter(base, tmp_path / "first", seed=1)
    second = peft_adapters.save_adapter(base, tmp_path / "second", seed=2, r=2, target_modules=["q_proj", "up_proj"])
    backend = tiny_models.load(base)
    put(backend, 0, first)
    put(backend, 3, second)
    texts = [tokens(count, seed) for seed, count in enumerate((9, 17, 5, 12))]
    slots = [3, -1, 0, 3]
    parts = [
        Part(text, 0, len(text), list(range(index * 4, index * 4 + 4)), adapter=slot)
        for index, (text, slot) in enumerate(zip(texts, slots, strict=True))
    ]
    folders = {3: second, 0: first}
    original = tiny_models.reload(base, torch.float32)
    for logits, text, slot in zip(tiny_models.run(backend, parts), texts, slots, strict=True):
        expected = (
            tiny_models.reference(original, text)
            if slot < 0
            else peft_adapters.merged_reference(base, folders[slot], text)
        )
        assert_close(logits, expected)


def test_a_slot_can_be_reused(base: Path, tmp_path: Path) -> None:
    first = peft_adapters.save_adapter(base, tmp_path / "first", seed=1)
    second = peft_adapters.save_adapter(base, tmp_path / "second", seed=2)
    backend = tiny_models.load(base)
    put(backend, 1, first)
    backend.drop_adapter(1)
    put(backend, 1, second)
    (logits,) = tiny_models.run(backend, [Part(tokens(8), 0, 8, [0], adapter=1)])
    assert_close(logits, peft_adapters.merged_reference(base, second, tokens(8)))


def test_adapters_of_one_weight_and_two_scales_are_distinguished(base: Path, tmp_path: Path) -> None:
    """Adapters that differ only in scale don't share cached prompts."""
    folder = peft_adapters.save_adapter(base, tmp_path / "a")
    shutil.copytree(folder, tmp_path / "b")
    file = tmp_path / "b" / "adapter_config.json"
    said = json.loads(file.read_text())
    file.write_text(json.dumps({**said, "lora_alpha": 8 * said["lora_alpha"]}))
    first, second = (read_adapter(each, MAX_RANK) for each in (folder, tmp_path / "b"))
    assert first.digest != second.digest


def test_input_major_layers_take_adapters(tmp_path: Path) -> None:
    """Adapters apply to GPT-2's layers, whose weights transformers stores transposed."""
    base, folder = tmp_path / "base", tmp_path / "adapter"
    tiny_models.save("gpt2", base)
    peft_adapters.save_adapter(base, folder, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True)
    backend = tiny_models.load(base)
    put(backend, 0, folder)
    (logits,) = tiny_models.run(backend, [Part(tokens(12), 0, 12, [0, 1], adapter=0)])
    assert_close(logits, peft_adapters.merged_reference(base, folder, tokens(12)))


REFUSED = {
    "llama": ("model.layers.0.self_attn.w_proj", 64, 64, "the model has no such module"),
    "qwen2": ("model.layers.7.self_attn.q_proj", 64, 64, "the model has no such module"),
    "qwen3": (
        "model.layers.0.mlp.up_proj",
        64,
        64,
        r"its shape is \[64, 64\], but the model's weight has the shape \[96, 64\]",
    ),
    "gpt2": ("transformer.h.0.ln_1", 64, 64, "it is a LayerNorm; only linear layers are supported"),
    "gpt-neox": ("gpt_neox.layers.9", 64, 64, "the model has no such module"),
    "phi": (
        "model.layers.0.mlp.fc1",
        64,
        64,
        r"its shape is \[64, 64\], but the model's weight has the shape \[96, 64\]",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_model_does_not_have_is_refused(name: str, tmp_path: Path) -> None:
    tiny_models.save(name, tmp_path)
    module, outputs, inputs, text = REFUSED[name]
    backend = tiny_models.load(tmp_path)
    low_rank = LowRank(np.zeros((2, inputs), np.float32), np.zeros((outputs, 2), np.float32))
    with pytest.raises(AdapterRejected, match=text):
        backend.put_adapter(0, Adapter(tmp_path, {module: low_rank}, "digest"))
