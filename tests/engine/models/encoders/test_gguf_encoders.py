"""GGUF files that embed: EmbeddingGemma and decoders with a pooling, computed in the blocks of the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import httpx
import numpy as np
import pytest
import torch
import transformers
from gguf import MODEL_ARCH
from gguf import GGMLQuantizationType as Kind

from bench.engine.gguf_greedy import llama_server
from bench.serving.servers import LLAMA_SERVER
from service.commands.check_model import check_model
from service.engine.building.engines import build_encoder
from service.engine.interface.config import EngineConfig
from service.engine.loading.gguf.settings_files import write_settings
from service.engine.models.checkpoint.encoders.sentence_files import is_encoder
from service.engine.models.checkpoint.gguf.gguf_checkpoint import REFERENCE, GgufCheckpoint
from service.engine.models.checkpoint.gguf.header import read_header
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import ModelLoadError
from tests.engine.folders import gguf_metadata as metadata
from tests.engine.folders.gguf_writer import GgufFamily, write_file
from tests.engine.models.encoders.test_native_encoders import vectors

THREAD = EngineConfig(worker="thread")
LENGTHS = (30, 1, 17)
HIDDEN = 64
_COMMON: dict[str, Any] = {
    "vocab_size": 101,
    "hidden_size": HIDDEN,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 40,
}


def gemma() -> Any:
    torch.manual_seed(0)
    config = transformers.Gemma3TextConfig(
        **_COMMON,
        layer_types=["sliding_attention", "full_attention"],
        sliding_window=12,
        use_bidirectional_attention=True,
        query_pre_attn_scalar=16,
    )
    model: Any = transformers.Gemma3TextModel(config)
    return model.eval()


def dense() -> list[torch.nn.Linear]:
    torch.manual_seed(1)
    return [torch.nn.Linear(HIDDEN, 96, bias=False), torch.nn.Linear(96, HIDDEN, bias=False)]


def write_gemma(file: Path, quantized: Kind | None = None, *, has_dense: bool = True, pooling: int = 1) -> None:
    def more(writer: gguf.GGUFWriter, config: Any) -> None:
        metadata.gemma3(writer, config)
        writer.add_sliding_window(12)  # the configuration's own is that of one side
        writer.add_pooling_type(gguf.PoolingType(pooling))
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(1)
        writer.add_add_bos_token(True)
        writer.add_add_eos_token(True)
        for name, layer in zip(("dense_2", "dense_3"), dense() if has_dense else (), strict=False):
            writer.add_dense_features_dims(name, layer.in_features, layer.out_features)
            writer.add_tensor(f"{name}.weight", layer.weight.detach().numpy())

    write_file(GgufFamily(arch=MODEL_ARCH.GEMMA_EMBEDDING, norm_addend=1.0, more=more), gemma(), file, quantized)


def folder_of(file: Path) -> Path:
    """Return a folder with the settings of a file, and a reference to it."""
    folder = file.with_suffix(".folder")
    folder.mkdir()
    write_settings(read_header(file), folder, "float32")
    (folder / REFERENCE).write_text(json.dumps({"files": [str(file)]}))
    return folder


def inputs_of(*lengths: int) -> list[Any]:
    random = np.random.default_rng(0)
    return [random.integers(0, 101, length) for length in lengths]


async def vectors_of(folder: Path) -> tuple[Any, Any]:
    """Return the vectors of texts in one batch, whose bits are also those of each text alone."""
    built = build_encoder(folder, THREAD, device="cpu", compute_dtype="float32")
    assert built.info.is_invariant
    inputs = inputs_of(*LENGTHS)
    batched, *alone = await vectors(built, inputs, *([ids] for ids in inputs))
    assert np.array_equal(batched, np.concatenate(alone))
    return inputs, batched


@pytest.mark.parametrize("has_dense", [True, False])
async def test_embedding_gemma_of_a_file_is_that_of_its_model(tmp_path: Path, *, has_dense: bool) -> None:
    write_gemma(tmp_path / "tiny.gguf", has_dense=has_dense)
    folder, model = folder_of(tmp_path / "tiny.gguf"), gemma()
    assert is_encoder(folder)
    inputs, found = await vectors_of(folder)
    layers = dense() if has_dense else []
    for ids, vector in zip(inputs, found, strict=True):
        with torch.inference_mode():
            state = model(input_ids=torch.from_numpy(ids)[None]).last_hidden_state[0].mean(0)
            for layer in layers:
                state = layer(state)
            expected = torch.nn.functional.normalize(state, dim=0).numpy()
        assert np.abs(vector - expected).max() < 1e-4


async def test_blocks_of_files_that_embed_are_multiplied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors are near those of the blocks' numbers, but have other bits, since inputs are rounded."""
    write_gemma(tmp_path / "tiny.gguf", Kind.Q8_0)
    folder = folder_of(tmp_path / "tiny.gguf")
    _, packed = await vectors_of(folder)
    monkeypatch.setattr(GgufCheckpoint, "block_type", None)
    _, widened = await vectors_of(folder)
    assert np.abs(packed - widened).max() < 2e-3
    assert (packed != widened).any(), "both are widened"


def test_check_reports_a_file_that_embeds(tmp_path: Path) -> None:
    write_gemma(tmp_path / "tiny.gguf", Kind.Q8_0)
    report = check_model(str(folder_of(tmp_path / "tiny.gguf")), THREAD, "float32", "cpu")
    assert (report["task"], report["backend"], report["weights"]) == ("embed", "native", "q8_0")
    assert report["weight_bytes"] < 4 * report["parameters"]


def test_texts_begin_and_end_with_the_tokens_that_the_file_states(tmp_path: Path) -> None:
    write_gemma(tmp_path / "tiny.gguf")
    tokenizer = FastTokenizer.from_folder(folder_of(tmp_path / "tiny.gguf"))
    ids = tokenizer.encode("t", add_special_tokens=True)
    assert (ids[0], ids[-1], len(ids)) == (0, 1, 3)


async def test_decoder_with_a_pooling_embeds_the_last_token(tmp_path: Path) -> None:
    """As Qwen3-Embedding does."""
    torch.manual_seed(0)
    model: Any = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**_COMMON, tie_word_embeddings=True))
    model.eval()

    def more(writer: gguf.GGUFWriter, _: Any) -> None:
        writer.add_pooling_type(gguf.PoolingType.LAST)

    write_file(GgufFamily(arch=MODEL_ARCH.QWEN3, more=more), model, tmp_path / "tiny.gguf")
    inputs, found = await vectors_of(folder_of(tmp_path / "tiny.gguf"))
    for ids, vector in zip(inputs, found, strict=True):
        with torch.inference_mode():
            state = model.model(input_ids=torch.from_numpy(ids)[None]).last_hidden_state[0, -1]
        assert np.abs(vector - torch.nn.functional.normalize(state, dim=0).numpy()).max() < 1e-4


def _causal(writer: gguf.GGUFWriter, _: Any) -> None:
    writer.add_causal_attention(False)


def _ranks(writer: gguf.GGUFWriter, _: Any) -> None:
    writer.add_pooling_type(gguf.PoolingType.RANK)


@pytest.mark.parametrize(
    ("more", "message"),
    [(_causal, "qwen3.attention.causal must be true"), (_ranks, r"qwen3.pooling_type must be one of 1 \(mean\), .* 4")],
)
def test_other_files_are_rejected_by_name(
    more: Callable[[gguf.GGUFWriter, Any], None], message: str, tmp_path: Path
) -> None:
    model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**_COMMON))
    write_file(replace(GgufFamily(arch=MODEL_ARCH.QWEN3), more=more), model, tmp_path / "tiny.gguf")
    with pytest.raises(ModelLoadError, match=message):
        folder_of(tmp_path / "tiny.gguf")


def test_architecture_that_only_embeds_needs_a_pooling(tmp_path: Path) -> None:
    write_gemma(tmp_path / "tiny.gguf", pooling=0)
    with pytest.raises(ModelLoadError, match=r"gemma-embedding.pooling_type must be one of .*, not 0"):
        folder_of(tmp_path / "tiny.gguf")


def llama_vector(address: str, ids: list[int]) -> Any:
    """Return llama.cpp's vector of a text."""
    answer = httpx.post(f"{address}/embedding", json={"content": ids}, timeout=60).raise_for_status().json()
    return np.array(answer[0]["embedding"][0])


@pytest.mark.long
@pytest.mark.skipif(not LLAMA_SERVER.is_file(), reason="llama.cpp is not installed")
async def test_vectors_are_those_of_llama_cpp(tmp_path: Path) -> None:
    """Run where llama.cpp's server is installed (`tools/install.sh llama`)."""
    write_gemma(tmp_path / "tiny.gguf")
    inputs, found = await vectors_of(folder_of(tmp_path / "tiny.gguf"))
    with llama_server(tmp_path / "tiny.gguf", "--embedding", "--pooling", "mean") as address:
        for ids, vector in zip(inputs, found, strict=True):
            assert np.abs(vector - llama_vector(address, ids.tolist())).max() < 2e-3
