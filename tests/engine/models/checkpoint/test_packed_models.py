"""Checkpoints with packed weights give the logits of their dequantized weights, on every backend."""

from __future__ import annotations

import json
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from safetensors.torch import load_file, save_file
from torch.nn.functional import kl_div
from torch.testing import assert_close
from transformers import GptOssConfig
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from service.engine.models.checkpoint.checkpoint import TensorSlice as Tensors
from service.engine.models.checkpoint.model_config import read_model_config
from service.engine.models.checkpoint.packed.packed_checkpoint import PackedCheckpoint
from service.engine.models.checkpoint.text_part import open_checkpoint
from service.engine.models.interface.backend import Backend
from service.engine.models.interface.model_spec import ModelSpec
from service.engine.models.native.block_sources import has_blocks
from service.engine.models.plans.families.table import FAMILIES, plan_of
from service.engine.models.selection.backends import choose_backend
from service.generation.errors import ModelLoadError
from tests.engine.folders import packing
from tests.engine.folders.packing import FILE, Packer, pack_folder
from tests.engine.folders.tiny_models import MAX_POSITIONS, Part, random_model, reference, run, save, tokens

BACKENDS = ["torch", "transformers", *(["native"] if find_spec("sluice_native") else [])]
GROUPS = {"config_groups": {"group_0": {"weights": {"num_bits": 4}}}}
PACKINGS: dict[str, tuple[Packer, dict[str, Any]]] = {
    "gptq": (packing.gptq, {"quant_method": "gptq", "bits": 4}),
    "gptq, groups by activation": (partial(packing.gptq, shuffled=True), {"quant_method": "gptq", "bits": 4}),
    "gptq of 2 bits": (partial(packing.gptq, bits=2), {"quant_method": "gptq", "bits": 2}),
    "gptq of 8 bits": (partial(packing.gptq, bits=8), {"quant_method": "gptq", "bits": 8}),
    "gptq's second form": (
        partial(packing.gptq, less=0), {"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq_v2"},
    ),
    "gptq's second form by transformers 5's field": (
        partial(packing.gptq, less=0), {"quant_method": "gptq", "bits": 4, "format": "gptq_v2"},
    ),
    "gptq of 4 bits with zero points that wrap": (
        lambda weight: packing.gptq(weight.abs() / 4, least=0), {"quant_method": "gptq", "bits": 4},
    ),
    "awq": (packing.awq, {"quant_method": "awq", "bits": 4, "version": "gemm"}),
    "fp8 in blocks": (packing.fp8_blocks, {"quant_method": "fp8", "weight_block_size": [16, 32]}),
    "fp8 with one scale": (
        packing.fp8_tensor, {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None},
    ),
    "fp8 by rows": (packing.fp8_rows, {"quant_method": "compressed-tensors", "format": "float-quantized"}),
    "int8 by rows": (packing.int8_rows, {"quant_method": "compressed-tensors", "format": "int-quantized"}),
    "packed rows": (packing.packed_rows, {"quant_method": "compressed-tensors", "format": "pack-quantized", **GROUPS}),
    "packed rows with zero points": (
        partial(packing.packed_rows, has_zeros=True),
        {"quant_method": "compressed-tensors", "format": "pack-quantized", **GROUPS},
    ),
    "nvfp4": (packing.nvfp4, {"quant_method": "modelopt", "quant_algo": "NVFP4"}),
    "nvfp4, compressed": (
        partial(packing.nvfp4, is_divided=True),
        {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"},
    ),
    "modelopt's fp8": (packing.fp8_rows, {"quant_method": "modelopt", "quant_algo": "FP8"}),
    "bitsandbytes of 8 bits": (packing.bitsandbytes_int8, {"load_in_8bit": True}),
    "bitsandbytes of 4 bits": (
        partial(packing.bitsandbytes_nf4, is_nested=False), {"quant_method": "bitsandbytes", "load_in_4bit": True},
    ),
    "bitsandbytes, packed twice": (packing.bitsandbytes_nf4, {"quant_method": "bitsandbytes", "load_in_4bit": True}),
}  # fmt: skip


def block_size_of(backend: str) -> int:
    return 16 if backend == "native" else 8


def load_packed(folder: Path, backend: str, rounded: str | None = None) -> Backend[Any]:
    """Load a folder as the product does, with weights that are `rounded` to another type."""
    model_config, size = read_model_config(folder), block_size_of(backend)
    checkpoint = open_checkpoint(folder, model_config)
    source = ModelSpec(model_config, checkpoint, "float32", "cpu", MAX_POSITIONS, size, quantization=rounded)
    loaded = choose_backend(source, backend).load(source)
    loaded.allocate(8, size)
    return loaded


def logits(backend: Backend[Any], name: str, token_ids: list[int]) -> torch.Tensor:
    """Return the logits of all tokens of one text."""
    return run(backend, [Part(token_ids, 0, len(token_ids), list(range(8)))], block_size_of(name))[0].float()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", PACKINGS)
def test_packed_weights_are_computed_as_what_they_mean(kind: str, backend: str, tmp_path: Path) -> None:
    """The logits are those of transformers' model with the widened weights.

    The native step multiplies them with inputs of 16 bits, whose distributions differ by at most 1e-5 nats.
    """
    packer, quantization = PACKINGS[kind]
    model = save("qwen3", tmp_path)
    model.load_state_dict(pack_folder(tmp_path, packer, quantization), strict=False)
    token_ids = tokens(20)
    computed = logits(load_packed(tmp_path, backend), backend, token_ids)
    expected = reference(model, token_ids)
    assert_close(computed, expected, rtol=1e-4, atol=2e-3 if backend == "native" else 1e-4)
    divergences = kl_div(computed.log_softmax(-1), expected.log_softmax(-1), log_target=True, reduction="none")
    assert divergences.sum(-1).max() <= 1e-5


@pytest.mark.skipif("native" not in BACKENDS, reason="sluice-native is not installed")
@pytest.mark.parametrize("kind", ["awq", "fp8 in blocks", "gptq", "nvfp4"])
def test_packed_weights_can_be_rounded_to_int8(kind: str, tmp_path: Path) -> None:
    packer, quantization = PACKINGS[kind]
    model = save("qwen3", tmp_path)
    model.load_state_dict(pack_folder(tmp_path, packer, quantization), strict=False)
    computed = logits(load_packed(tmp_path, "native", "int8"), "native", token_ids := tokens(20))
    expected = reference(model, token_ids)
    divergences = kl_div(computed.log_softmax(-1), expected.log_softmax(-1), log_target=True, reduction="none")
    assert 1e-5 < divergences.sum(-1).max() < 1e-2


BLOCKS: dict[str, str | None] = {
    "gptq": "u4.g16.float16",
    "gptq, groups by activation": "u4.g16.float16",
    "nvfp4": "nvfp4",
    "nvfp4, compressed": "nvfp4",
    "fp8 in blocks": "f8.g32",
    "fp8 with one scale": "f8.g64",
    "fp8 by rows": "f8.g64",
    "bitsandbytes of 4 bits": "nf4.g64",
    "bitsandbytes, packed twice": "nf4.g64",
}


@pytest.mark.parametrize("kind", BLOCKS)
def test_packed_weights_have_blocks_that_the_native_step_multiplies(kind: str, tmp_path: Path) -> None:
    packer, quantization = PACKINGS[kind]
    save("qwen3", tmp_path)
    pack_folder(tmp_path, packer, quantization)
    assert open_checkpoint(tmp_path, read_model_config(tmp_path)).block_type == BLOCKS[kind]


def test_products_of_matrices_in_different_orders_are_widened(tmp_path: Path) -> None:
    """Queries and keys are one product, whose inputs have one order."""
    model = save("qwen3", tmp_path)
    seeds = count()
    packer = lambda weight: packing.gptq(weight, shuffled=True, seed=next(seeds))  # noqa: E731
    model.load_state_dict(pack_folder(tmp_path, packer, {"quant_method": "gptq", "bits": 4}), strict=False)
    model_config = read_model_config(tmp_path)
    checkpoint = open_checkpoint(tmp_path, model_config)
    plan = plan_of(model_config)
    assert not has_blocks(checkpoint, plan, FAMILIES["qwen3"].tensors)
    token_ids = tokens(20)
    assert_close(
        logits(load_packed(tmp_path, "native"), "native", token_ids), reference(model, token_ids), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("backend", [backend for backend in BACKENDS if backend != "torch"])
def test_experts_of_four_bits_are_computed_as_what_they_mean(backend: str, tmp_path: Path) -> None:
    """The blocks of gpt-oss, 32 numbers with one exponent, are read as by transformers, also expert by expert."""
    sizes: Any = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 16, "vocab_size": 101}
    heads: Any = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2}
    model = random_model(GptOssConfig(**sizes, **heads, max_position_embeddings=128))
    model.save_pretrained(tmp_path)
    stored, draw = load_file(tmp_path / FILE), torch.Generator().manual_seed(3)
    for name in [name for name in stored if name.endswith(("gate_up_proj", "experts.down_proj"))]:
        experts, num_inputs, num_outputs = stored.pop(name).shape
        codes = torch.randint(0, 256, (experts, num_outputs, num_inputs // 32, 16), dtype=torch.uint8, generator=draw)
        scales = torch.randint(120, 125, codes.shape[:3], dtype=torch.uint8, generator=draw)
        stored |= {f"{name}_blocks": codes, f"{name}_scales": scales}
        model.get_parameter(name).data = convert_moe_packed_tensors(codes, scales, dtype=torch.float32)
    save_file(stored, tmp_path / FILE)
    said = json.loads((tmp_path / "config.json").read_text()) | {"quantization_config": {"quant_method": "mxfp4"}}
    (tmp_path / "config.json").write_text(json.dumps(said))
    token_ids = tokens(20)
    assert open_checkpoint(tmp_path, read_model_config(tmp_path)).block_type == "mxfp4"
    computed = logits(load_packed(tmp_path, backend), backend, token_ids)
    assert_close(computed, reference(model, token_ids), rtol=1e-4, atol=1e-4)


def test_of_packed_experts_only_a_slice_is_read(tmp_path: Path) -> None:
    codes = np.random.default_rng(0).integers(0, 256, (4, 6, 2, 16), dtype=np.uint8)
    scales = np.full((4, 6, 2), 121, np.uint8)
    save_file({"experts_blocks": torch.from_numpy(codes), "experts_scales": torch.from_numpy(scales)}, tmp_path / FILE)
    checkpoint = PackedCheckpoint(tmp_path, None, {"quant_method": "mxfp4"})
    whole = checkpoint.take("experts", (4, 64, 6))
    sizes: list[int] = []
    checkpoint.on_read = sizes.append
    assert_array_equal(checkpoint.take("experts", (4, 64, 6), Tensors(0, 1, 3)), whole[1:3])
    assert sum(sizes) == codes[1:3].nbytes + scales[1:3].nbytes


def test_biases_ties_and_parts_of_packed_weights_are_read(tmp_path: Path) -> None:
    """Unpacked tensors are not changed, and a rank reads its rows or columns."""
    save("qwen2-tied", tmp_path)
    meant = pack_folder(tmp_path, packing.gptq, {"quant_method": "gptq", "bits": 4})
    checkpoint = open_checkpoint(tmp_path, read_model_config(tmp_path))
    name = "model.layers.0.mlp.down_proj.weight"
    assert "model.layers.0.self_attn.q_proj.bias" in checkpoint
    assert "model.layers.0.self_attn.q_proj.qweight" not in checkpoint
    assert checkpoint.dtype == "float32"
    assert checkpoint.num_parameters == sum(tensor.numel() for tensor in meant.values())
    for part in (Tensors(0, 8, 24), Tensors(1, 32, 64)):
        rows = slice(part.start, part.end)
        expected = meant[name][rows] if part.axis == 0 else meant[name][:, rows]
        assert_close(torch.from_numpy(checkpoint.take(name, meant[name].shape, part)), expected)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another method": ({"quant_method": "hqq"}, "quantised by hqq; read are awq, bitsandbytes"),
    "no method": ({"bits": 4}, "by a method it doesn't name"),
    "three bits": ({"quant_method": "gptq", "bits": 3}, "have 3 bits; gptq is read with 2, 4, 8"),
    "another layout": ({"quant_method": "awq", "version": "marlin"}, "version marlin; read is gemm"),
    "another layout in transformers 5's field": ({"quant_method": "awq", "format": "gemv"}, "version gemv; read is"),
    "another layout of a backend": ({"quant_method": "awq", "backend": "llm-awq"}, "version llm-awq; read is gemm"),
    "a kernel's layout": (
        {"quant_method": "gptq", "checkpoint_format": "marlin"},
        "GPTQ's format marlin; read are gptq and gptq_v2",
    ),
    "rotated inputs": (
        {
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "transform_config": {"config_groups": {"u": {"type": "hadamard", "apply": [{"location": "input"}]}}},
        },
        r"inputs of its weights are rotated \(transform_config\)",
    ),
    "sparse": (
        {
            "quant_method": "compressed-tensors",
            "format": "float-quantized",
            "sparsity_config": {"format": "sparse-24-bitmask"},
        },
        r"sparse matrices \(sparsity_config\.format sparse-24-bitmask\); read is dense",
    ),
    "malformed groups": (
        {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"a": 4}},
        "its quantization_config can't be read",
    ),
    "another format": ({"quant_method": "compressed-tensors", "format": "marlin-24"}, "compressed as marlin-24; read"),
    "another algorithm": (
        {"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"},
        "quantised by modelopt's W4A8_AWQ; read are FP8, NVFP4",
    ),
    "several sizes": (
        {
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "config_groups": {"a": {"weights": {"num_bits": 4}}, "b": {"weights": {"num_bits": 8}}},
        },
        "several numbers of bits",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_not_read_is_refused_with_what_is(kind: str, tmp_path: Path) -> None:
    """The error is raised before a weight is read, and lists the supported formats."""
    quantization, message = REFUSED[kind]
    save("qwen3", tmp_path)
    said = json.loads((tmp_path / "config.json").read_text()) | {"quantization_config": quantization}
    (tmp_path / "config.json").write_text(json.dumps(said))
    with pytest.raises(ModelLoadError, match=message):
        read_model_config(tmp_path)


BROKEN: dict[str, tuple[str, Packer, dict[str, Any]]] = {
    "a missing part": ("scales", packing.gptq, {"quant_method": "gptq", "bits": 4}),
    "another number of groups": ("qzeros", packing.awq, {"quant_method": "awq", "bits": 4}),
    "no scales for 16": ("weight_scale", packing.nvfp4, {"quant_method": "modelopt", "quant_algo": "NVFP4"}),
    "no scale of one number": ("weight_scale_2", packing.nvfp4, {"quant_method": "modelopt", "quant_algo": "NVFP4"}),
    "no state": ("weight.quant_state.bitsandbytes__nf4", packing.bitsandbytes_nf4, {"quant_method": "bitsandbytes"}),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_packing_is_refused_by_its_tensor(kind: str, tmp_path: Path) -> None:
    """If a part is missing or doesn't fit the others, the error names the folder and the tensor."""
    end, packer, quantization = BROKEN[kind]
    save("qwen3", tmp_path)
    pack_folder(tmp_path, packer, quantization)
    stored, name = load_file(tmp_path / FILE), f"model.layers.0.mlp.down_proj.{end}"
    if kind in {"another number of groups", "no scales for 16"}:
        stored[name] = stored[name][:-1].contiguous()
    elif kind == "no scale of one number":
        stored[name] = torch.ones(2)
    else:
        del stored[name]
    save_file(stored, tmp_path / FILE)
    with pytest.raises(ModelLoadError, match=r"model\.layers\.0\.mlp\.down_proj\.") as refusal:
        load_packed(tmp_path, "torch")
    assert str(tmp_path) in str(refusal.value)
