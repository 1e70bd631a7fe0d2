"""The families of GGUF files: a file's model is the one that it was written from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from service.engine.loading.gguf.families import FAMILIES as SETTINGS
from service.engine.models.checkpoint.gguf.architectures import ARCHITECTURES, UNSTATED
from service.engine.models.checkpoint.gguf.gguf_checkpoint import GgufCheckpoint
from service.engine.models.checkpoint.gguf.header import read_header
from service.engine.models.native.backend import RecurrentBackend
from service.generation.errors import ModelLoadError
from tests.engine.folders.gguf_backends import backend_of_file
from tests.engine.folders.gguf_families import FAMILIES, model_of, write_family
from tests.engine.folders.tiny_models import Part, batch_of
from tests.models.families import some_tokens
from tests.native.decoders import Sequence, native, step

LENGTH = 40
BLOCKS = [3, 0, 5]


def logits_of(file: Path, checkpoint: type[GgufCheckpoint], token_ids: list[int]) -> NDArray[np.float32]:
    loaded = backend_of_file(file, "float32", checkpoint)
    loaded.allocate(16, 16)
    batch = batch_of([Part(token_ids, 0, LENGTH, BLOCKS)], 16)
    if isinstance(loaded, RecurrentBackend):
        loaded.allocate_states(1)
        batch = replace(batch, states=np.array([[0, 0, 0, -1]], np.int32))
    return np.array(loaded.forward(batch))


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_of_a_file_are_those_of_its_model(name: str, tmp_path: Path) -> None:
    model, token_ids = model_of(name), some_tokens(0, LENGTH)
    write_family(name, model, tmp_path / "tiny.gguf")
    made = native(model)
    made.allocate(16, 16)
    expected = step(made, [(Sequence(token_ids, BLOCKS), LENGTH)])[0]
    found = logits_of(tmp_path / "tiny.gguf", GgufCheckpoint, token_ids)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    assert (found.argmax(-1) == expected.argmax(-1)).all()


class Widened(GgufCheckpoint):
    """A file whose weights are computed as numbers."""

    block_type = None


# Layers with short convolutions, with Mamba, with Mamba-2, with latents, with delta nets, and with fused heads.
MIXERS = (
    *("lfm2", "lfm2_moe", "falcon_h1, multipliers", "granitemoehybrid", "granitemoehybrid, dense"),
    *("mamba", "falcon_mamba", "mamba2", "jamba", "nemotron_h", "nemotron_h, experts"),
    *("deepseek_v2, groups", "deepseek_v3, yarn", "minicpm3"),
    *("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"),
    *("falcon, two norms", "gpt_neox"),
)


@pytest.mark.parametrize("name", MIXERS)
def test_mixers_are_multiplied_in_blocks(name: str, tmp_path: Path) -> None:
    """Logits are those of the widened weights; states of delta nets amplify the rounding of inputs."""
    file, token_ids = tmp_path / "tiny.gguf", some_tokens(0, LENGTH)
    write_family(name, model_of(name), file, gguf.GGMLQuantizationType.Q8_0)
    packed, widened = (logits_of(file, kind, token_ids) for kind in (GgufCheckpoint, Widened))
    np.testing.assert_allclose(packed, widened, rtol=0, atol=2e-2 if "qwen" in name else 2e-3)
    assert (packed != widened).any(), "both are widened"


@pytest.mark.parametrize("name", ["gemma3n_text", "gemma4_text", "gemma4_text, experts without inputs"])
def test_weights_that_are_not_multiplied_in_blocks_are_widened(name: str, tmp_path: Path) -> None:
    file, token_ids = tmp_path / "tiny.gguf", some_tokens(0, LENGTH)
    write_family(name, model_of(name), file, gguf.GGMLQuantizationType.Q8_0)
    assert logits_of(file, GgufCheckpoint, token_ids).tobytes() == logits_of(file, Widened, token_ids).tobytes()


@pytest.mark.parametrize("quantized", [None, gguf.GGMLQuantizationType.Q8_0])
@pytest.mark.parametrize("name", ["glm", "granite", "seed_oss, biases"])
def test_queries_keys_and_values_may_be_one_tensor(
    name: str, quantized: gguf.GGMLQuantizationType | None, tmp_path: Path
) -> None:
    """Logits have the bits that a file with three tensors gives, also where rows have another order."""
    token_ids, found = some_tokens(0, LENGTH), []
    for is_fused in (False, True):
        file = tmp_path / f"{is_fused}.gguf"
        write_family(name, model_of(name), file, quantized, fuses_heads=is_fused)
        assert any("attn_qkv" in tensor for tensor in read_header(file).tensors) == is_fused
        found.append(logits_of(file, GgufCheckpoint, token_ids))
    assert found[0].tobytes() == found[1].tobytes()


NOT_THE_HEADS = r"attn_qkv.weight can't be read: its 62 rows are not those of 4 heads with 2"


def test_rows_that_are_not_those_of_the_heads_are_not_split(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=NOT_THE_HEADS):
        checkpoint_with_heads(tmp_path, "chatglm")


@pytest.mark.parametrize(
    ("architecture", "name"),
    [
        ("gptneox", "gpt_neox.layers.0.attention.query_key_value.weight"),
        ("falcon", "transformer.h.0.self_attention.query_key_value.weight"),
    ],
)
def test_rows_that_are_not_those_of_the_heads_are_not_grouped(architecture: str, name: str, tmp_path: Path) -> None:
    checkpoint = checkpoint_with_heads(tmp_path, architecture)
    with pytest.raises(ModelLoadError, match=NOT_THE_HEADS):
        checkpoint.take(name, (62, 64))


def checkpoint_with_heads(folder: Path, architecture: str) -> GgufCheckpoint:
    counts = {f"{architecture}.attention.head_count": 4, f"{architecture}.attention.head_count_kv": 2}
    return checkpoint_of(folder, {"blk.0.attn_qkv.weight": (62, 64)}, architecture, counts)


@pytest.mark.parametrize("quantized", [None, gguf.GGMLQuantizationType.Q8_0])
@pytest.mark.parametrize("name", ["deepseek_v3, groups", "gpt_oss", "mixtral", "qwen3_5_moe_text"])
def test_gate_and_up_of_experts_may_be_one_tensor(
    name: str, quantized: gguf.GGMLQuantizationType | None, tmp_path: Path
) -> None:
    """Logits have the bits that a file with two tensors gives, also with biases of experts."""
    token_ids, found = some_tokens(0, LENGTH), []
    for is_fused in (False, True):
        file = tmp_path / f"{is_fused}.gguf"
        write_family(name, model_of(name), file, quantized, fuses_experts=is_fused)
        has_fused = any("ffn_gate_up_exps" in tensor for tensor in read_header(file).tensors)
        assert has_fused == is_fused
        found.append(logits_of(file, GgufCheckpoint, token_ids))
    assert found[0].tobytes() == found[1].tobytes()


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((4, 63, 64), "the 63 rows of an expert in blk.0.ffn_gate_up_exps.weight are not 2 parts"),
        ((64,), r"blk.0.ffn_gate_up_exps.weight has the shape \[64\]; it must be \[experts, …\] with at most"),
    ],
)
def test_fused_experts_of_another_shape_are_rejected(shape: tuple[int, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=message):
        checkpoint_of(tmp_path, {"blk.0.ffn_gate_up_exps.weight": shape})


@pytest.mark.parametrize("name", ["blk.0.attn_q.wei}ht", "blk.0.ffn_up_exps.{}", "blk.0.attn_{}.weight"])
def test_names_with_braces_are_unknown(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=re.escape(f"qwen3moe has no tensor {name}")):
        checkpoint_of(tmp_path, {name: (4, 32, 64)})


def test_experts_in_two_forms_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"the tensor blk\.0\.ffn_up_exps\.weight occurs twice"):
        checkpoint_of(tmp_path, {"blk.0.ffn_up_exps.weight": (4, 32, 64), "blk.0.ffn_gate_up_exps.weight": (4, 64, 64)})


@pytest.mark.parametrize("up", [None, (4, 31, 64), (3, 32, 64)])
def test_experts_without_matching_parts_are_not_stacked(up: tuple[int, ...] | None, tmp_path: Path) -> None:
    shapes = {"blk.0.ffn_gate_exps.weight": (4, 32, 64), "blk.0.ffn_down_exps.weight": (4, 64, 32)}
    found = checkpoint_of(
        tmp_path, shapes | ({} if up is None else {"blk.0.ffn_up_exps.weight": up}), "granitemoe"
    ).checkpoint_shapes()
    assert found["model.layers.0.block_sparse_moe.output_linear.weight"] == (4, 64, 32)
    assert found["model.layers.0.mlp.experts.0.gate_proj.weight"] == (32, 64)


@pytest.mark.parametrize(
    ("stored", "name", "expected"),
    [
        (("gemma", "blk.0.attn_norm.weight"), "input_layernorm.weight", -3.0),
        (("falcon-h1", "blk.0.ssm_a"), "mamba.A_log", np.log(np.float32(2.0))),
    ],
)
@pytest.mark.parametrize("kind", [gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.BF16])
def test_numbers_that_files_store_otherwise_are_restored_in_every_type(
    kind: gguf.GGMLQuantizationType, stored: tuple[str, str], name: str, expected: float, tmp_path: Path
) -> None:
    """Norms with an addend, and decay rates instead of their logarithms."""
    architecture, own = stored
    writer = gguf.GGUFWriter(tmp_path / "tiny.gguf", architecture)
    numbers = np.full(64, -2.0, np.float32)
    writer.add_tensor(own, numbers if kind.name == "F32" else gguf.quantize(numbers, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    checkpoint = GgufCheckpoint(tmp_path, [read_header(tmp_path / "tiny.gguf")])
    found = checkpoint.take(f"model.layers.0.{name}", (64,))
    np.testing.assert_array_equal(found, np.full(64, expected, np.float32))


def checkpoint_of(
    folder: Path,
    shapes: dict[str, tuple[int, ...]],
    architecture: str = "qwen3moe",
    counts: Mapping[str, int] = MappingProxyType({}),
) -> GgufCheckpoint:
    """Return the tensors of a file that has zeros of these shapes; `counts` are values of its metadata."""
    writer = gguf.GGUFWriter(folder / "tiny.gguf", architecture)
    for key, count in counts.items():
        writer.add_uint32(key, count)
    for name, shape in shapes.items():
        writer.add_tensor(name, np.zeros(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return GgufCheckpoint(folder, [read_header(folder / "tiny.gguf")])


def test_every_architecture_has_settings_and_a_file() -> None:
    assert set(ARCHITECTURES) == set(SETTINGS)
    tested = {gguf.MODEL_ARCH_NAMES[family.arch] for family in FAMILIES.values()}
    embeds = {name for name, family in SETTINGS.items() if family.only_embeds}
    assert tested | {"qwen2", "qwen3", *embeds, *UNSTATED} == set(ARCHITECTURES)


def test_documentation_lists_the_architectures() -> None:
    page = (Path(__file__).parents[4] / "docs/models/checkpoints.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| Architectures |"))
    listed = re.findall(r"`([\w-]+)`", row.split("|")[2].partition(";")[0])
    assert listed == sorted(SETTINGS.keys() - UNSTATED)
