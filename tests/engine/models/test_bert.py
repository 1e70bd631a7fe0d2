"""BERT in numpy gives transformers' vectors in every batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.checkpoint.encoders.sentence_files import SentenceFiles
from service.engine.models.checkpoint.model_config import read_model_config
from service.engine.models.encoders.bert import BertEncoder, load_bert
from service.generation.errors import ModelLoadError
from tests.engine.encoder_fakes import save_encoder
from tests.engine.models.checkpoint.test_models_checkpoint import edit

LENGTHS = (1, 30, 2, 2, 17, 40, 5, 12, 3)


def loaded(folder: Path, pooling: str = "mean", *, normalises: bool = False) -> BertEncoder:
    files = SentenceFiles(folder, pooling=pooling, normalises=normalises)  # type: ignore[arg-type]  # it is one of them
    encoder = load_bert(read_model_config(folder), Checkpoint(folder), files)
    assert encoder is not None
    return encoder


@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken"])
def test_vectors_are_those_of_transformers(pooling: str, tmp_path: Path) -> None:
    """Vectors of texts up to the full length are equal, batched and alone."""
    model = save_encoder("bert", tmp_path)
    encoder = loaded(tmp_path, pooling)
    assert (encoder.num_dimensions, encoder.max_positions) == (32, 40)
    rng = np.random.default_rng(0)
    inputs = [rng.integers(7, 101, length) for length in LENGTHS]
    for ids, vector in zip(inputs, encoder.run(inputs), strict=True):
        with torch.inference_mode():
            states = model(input_ids=torch.from_numpy(ids)[None]).last_hidden_state[0]
        expected = {"mean": states.mean(0), "cls": states[0], "lasttoken": states[-1]}[pooling].numpy()
        assert np.abs(vector - expected).max() < 1e-5
        assert np.abs(encoder.run([ids])[0] - expected).max() < 1e-5
        assert np.linalg.norm(loaded(tmp_path, pooling, normalises=True).run([ids])[0]) == pytest.approx(1)


def test_weights_in_bfloat16_or_beneath_a_head_are_read(tmp_path: Path) -> None:
    """The weights are widened, and found by the names in a model with a head."""
    save_encoder("bert", tmp_path)
    edit(tmp_path, lambda tensors: tensors.update({name: value.bfloat16() for name, value in tensors.items()}))
    expected = loaded(tmp_path).run([np.arange(9)])[0]

    def rename(tensors: dict[str, torch.Tensor]) -> None:
        for name in list(tensors):
            tensors[f"bert.{name}"] = tensors.pop(name).float()

    edit(tmp_path, rename)
    assert np.array_equal(loaded(tmp_path).run([np.arange(9)])[0], expected)


def test_what_is_no_plain_bert_is_left_to_transformers(tmp_path: Path) -> None:
    """Other models are recognised by configuration or tensor names; broken ones are errors."""
    save_encoder("roberta", tmp_path)
    files = SentenceFiles(tmp_path)
    assert load_bert(read_model_config(tmp_path), Checkpoint(tmp_path), files) is None
    save_encoder("bert", tmp_path)
    edit(tmp_path, lambda tensors: tensors.pop("encoder.layer.1.output.dense.bias"))
    with pytest.raises(ModelLoadError, match=r"encoder\.layer\.1\.output\.dense\.bias is missing"):
        load_bert(read_model_config(tmp_path), Checkpoint(tmp_path), files)
    edit(tmp_path, lambda tensors: tensors.pop("embeddings.LayerNorm.weight"))
    assert load_bert(read_model_config(tmp_path), Checkpoint(tmp_path), files) is None
