"""The folder of an encoder decides its length, pooling and dimensions; unusable folders are rejected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

from service.engine.building.engines import build_encoder
from service.engine.interface.config import EngineConfig
from service.engine.models.checkpoint.encoders.sentence_files import SentenceFiles
from service.engine.models.encoders.encoder import load_encoder
from service.engine.runner.encoder_runner import BatchEncoder
from service.generation.errors import ModelLoadError
from tests.engine.encoder_fakes import CONFIGS, modules, save_encoder

torch.set_num_threads(1)


@pytest.mark.parametrize(("kind", "length"), [("bert", 40), ("roberta", 38), ("mpnet", 38), ("distilbert", 40)])
def test_length_is_what_the_positions_allow(kind: str, length: int, tmp_path: Path) -> None:
    """The RoBERTa family reserves two positions; a text of the full length is encoded."""
    save_encoder(kind, tmp_path)
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    encoder = load_encoder(config, SentenceFiles(tmp_path), "float32", "cpu")
    assert encoder.max_positions == length
    assert BatchEncoder(encoder).run([np.full(length, 7)])[0].shape == (32,)


@pytest.mark.parametrize(
    ("settings", "wanted", "length"),
    [
        ({"max_seq_length": 16}, None, 16),
        ({}, None, 40),
        ({"max_seq_length": 16}, 8, 8),
        ({"max_seq_length": 99}, None, 40),
    ],
)
def test_folder_decides_the_length(settings: dict[str, int], wanted: int | None, length: int, tmp_path: Path) -> None:
    """The length is from sentence_bert_config.json or the positions; the engine's setting may be shorter."""
    pooling = {"pooling_mode_mean_tokens": True}
    files = {"modules": modules("Transformer", "Pooling"), "pooling": pooling, "sentence_bert_config": settings}
    save_encoder("bert", tmp_path, **files)
    built = build_encoder(tmp_path, EngineConfig(max_model_len=wanted, worker="thread"), device="cpu")
    assert built.engine.max_model_len == built.info.max_model_len == length


def test_length_above_the_folders_is_refused(tmp_path: Path) -> None:
    """Positions that were not trained or don't exist are not served."""
    save_encoder("bert", tmp_path)
    with pytest.raises(ModelLoadError, match=r"max_model_len 41 exceeds the maximum length of .*, 40"):
        build_encoder(tmp_path, EngineConfig(max_model_len=41, worker="thread"), device="cpu")


def test_quantization_needs_the_native_step(tmp_path: Path) -> None:
    """An encoder without a layer plan has no smaller weights; the error says why."""
    save_encoder("mpnet", tmp_path)
    problem = r"engine\.quantization int8 is not supported for this encoder: the model_type mpnet has no layer plan"
    with pytest.raises(ModelLoadError, match=problem):
        build_encoder(tmp_path, EngineConfig(quantization="int8", worker="thread"), device="cpu")


def test_fingerprint_depends_on_pooling(tmp_path: Path) -> None:
    """The same weights with another pooling have another fingerprint."""
    pooling = {"pooling_mode_mean_tokens": True}
    save_encoder("bert", tmp_path, modules=modules("Transformer", "Pooling"), pooling=pooling)
    first = build_encoder(tmp_path, EngineConfig(worker="thread"), device="cpu").info
    (tmp_path / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode": "cls"}))
    second = build_encoder(tmp_path, EngineConfig(worker="thread"), device="cpu").info
    assert first.fingerprint != second.fingerprint
    assert (first.architecture, first.num_parameters) == (second.architecture, second.num_parameters)
    assert first.architecture == "BertModel"


def test_head_of_a_checkpoint_is_left_out(tmp_path: Path) -> None:
    """A masked language model, stored with its head and without a pooler, gives the same vectors."""
    torch.manual_seed(0)
    model: Any = transformers.BertForMaskedLM(CONFIGS["bert"]())
    model.eval()
    model.save_pretrained(tmp_path)
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    runner = BatchEncoder(load_encoder(config, SentenceFiles(tmp_path), "float32", "cpu"))
    with torch.inference_mode():
        expected = model.bert(input_ids=torch.tensor([[9, 8, 7]])).last_hidden_state[0].mean(0)
    assert np.abs(runner.run([np.array([9, 8, 7])])[0] - expected.numpy()).max() < 1e-6


def test_missing_weights_are_refused(tmp_path: Path) -> None:
    """A missing layer is an error, since it would be random."""
    save_encoder("bert", tmp_path)
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    config.num_hidden_layers = 3
    with pytest.raises(ModelLoadError, match=r"missing tensors: .*layer\.2"):
        load_encoder(config, SentenceFiles(tmp_path), "float32", "cpu")


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    """A pickle is never read; the error says what to do."""
    save_encoder("bert", tmp_path)
    torch.save(load_file(tmp_path / "model.safetensors"), tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    with pytest.raises(ModelLoadError, match=r"pytorch_model\.bin is a pickle, which is not read"):
        load_encoder(config, SentenceFiles(tmp_path), "float32", "cpu")


def test_encoder_with_a_decoder_is_refused(tmp_path: Path) -> None:
    """Models of the T5 family are not supported."""
    config = transformers.T5Config(vocab_size=101, d_model=32, d_ff=48, num_layers=1, num_heads=2, d_kv=8)
    with pytest.raises(ModelLoadError, match="encoder-decoder models are not supported"):
        load_encoder(config, SentenceFiles(tmp_path), "float32", "cpu")


def test_tokenizer_larger_than_the_model_is_refused(tmp_path: Path) -> None:
    """A larger tokenizer is an error, since an id without an embedding row would stop the engine."""
    save_encoder("bert", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": 100}))
    with pytest.raises(ModelLoadError, match="the tokenizer has 101 ids, the model only 100"):
        build_encoder(tmp_path, EngineConfig(worker="thread"), device="cpu")


@pytest.mark.parametrize(
    ("said", "dimensions"),
    [
        ({}, ()),
        ({"is_matryoshka": True}, None),
        ({"is_matryoshka": False}, ()),
        ({"is_matryoshka": True, "matryoshka_dimensions": [16, 8]}, (8, 16)),
    ],
)
def test_folder_sets_the_allowed_dimensions(
    said: dict[str, Any], dimensions: tuple[int, ...] | None, tmp_path: Path
) -> None:
    """None allows any number of dimensions."""
    save_encoder("bert", tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | said))
    assert build_encoder(tmp_path, EngineConfig(worker="thread"), device="cpu").description.dimensions == dimensions
