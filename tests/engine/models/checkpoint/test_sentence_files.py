"""The embedding settings of folders are read, and unsupported ones are rejected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from service.engine.models.checkpoint.encoders.sentence_files import SentenceFiles, is_encoder
from service.generation.errors import ModelLoadError
from service.settings.bundled_models import DEMO_FOLDER, embedding_folder
from tests.engine.encoder_fakes import modules

MEAN = {"word_embedding_dimension": 8, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}


def write(folder: Path, **files: Any) -> Path:
    """Write JSON files, given by name without extension; `pooling` is 1_Pooling/config.json."""
    for name, value in files.items():
        file = folder / ("1_Pooling/config.json" if name == "pooling" else f"{name}.json")
        file.parent.mkdir(exist_ok=True)
        file.write_text(value if isinstance(value, str) else json.dumps(value))
    return folder


def test_bare_folder_is_averaged(tmp_path: Path) -> None:
    """Without modules.json, a vector is the mean and is not normalised."""
    assert SentenceFiles.read(tmp_path) == SentenceFiles(tmp_path, "mean", normalises=False, max_seq_length=None)


def test_bundled_model_averages_and_normalises() -> None:
    """The bundled MiniLM's files set mean pooling and normalisation."""
    folder = embedding_folder()
    assert folder is not None
    read = SentenceFiles.read(folder)
    assert (read.pooling, read.normalises, read.max_seq_length, read.lowers_case) == ("mean", True, 256, False)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        (MEAN, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_lasttoken": True}, "lasttoken"),
        ({"pooling_mode": "cls", "embedding_dimension": 8}, "cls"),
        ({"pooling_mode": ["mean"]}, "mean"),
    ],
)
def test_pooling_is_read_in_old_and_new_spelling(pooling: dict[str, Any], expected: str, tmp_path: Path) -> None:
    """Pooling is read from flags, from one name, and from a list of one."""
    write(tmp_path, modules=modules("Transformer", "Pooling"), pooling=pooling)
    assert SentenceFiles.read(tmp_path).pooling == expected


def test_files_of_other_families_and_layouts_are_read(tmp_path: Path) -> None:
    """A transformer in a subfolder, settings named after its family, and classes of a newer module are read."""
    kinds = modules("Transformer", "Pooling", "Normalize")
    kinds[0]["path"] = "0_Transformer"
    kinds[1]["type"] = "sentence_transformers.sentence_transformer.modules.pooling.Pooling"
    write(tmp_path, modules=kinds, pooling=MEAN)
    body = tmp_path / "0_Transformer"
    body.mkdir()
    write(body, **{"sentence_xlm-roberta_config": {"max_seq_length": 128, "do_lower_case": True}})
    assert SentenceFiles.read(tmp_path) == SentenceFiles(
        body, "mean", normalises=True, max_seq_length=128, lowers_case=True
    )


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({"modules": "["}, r"modules\.json can't be read"),
        ({"modules": {}}, r"modules\.json is not a JSON list"),
        (
            {"modules": modules("Transformer", "Pooling", "Normalize", "Dense")},
            "not Transformer, Pooling, Normalize, D",
        ),
        (
            {"modules": modules("Transformer", "Pooling", "Dense"), "pooling": MEAN},
            r"2_Dense/config\.json can't be read",
        ),
        (
            {"config_sentence_transformers": {"prompts": {}, "default_prompt_name": "query"}},
            "default_prompt_name 'query' is not one of the prompts",
        ),
        ({"config_sentence_transformers": {"prompts": ["query: "]}}, "prompts must be an object of texts"),
        ({"config": {"matryoshka_dimensions": [64, "32"]}, "pooling": MEAN}, "must be a list of numbers of components"),
        ({"modules": modules("Transformer")}, "only the modules"),
        ({"modules": modules("Transformer", "Pooling")}, r"1_Pooling/config\.json can't be read"),
        ({"pooling": {"pooling_mode_max_tokens": True}}, "pooling is one of mean, cls, lasttoken here, not max"),
        ({"pooling": {**MEAN, "pooling_mode_cls_token": True}}, "not cls, mean"),
        ({"pooling": {}}, "not nothing"),
        ({"pooling": {"pooling_mode": 3}}, "not 3"),
        ({"pooling": {**MEAN, "include_prompt": False}}, "leaves out the instruction"),
        ({"pooling": MEAN, "sentence_bert_config": []}, r"sentence_bert_config\.json is not a JSON object"),
        ({"pooling": MEAN, "sentence_bert_config": {"max_seq_length": "many"}}, "max_seq_length must be"),
    ],
)
def test_what_cannot_be_served_is_refused(files: dict[str, Any], text: str, tmp_path: Path) -> None:
    """The error names the file and what is wrong with it."""
    write(tmp_path, **{"modules": modules("Transformer", "Pooling"), **files})
    with pytest.raises(ModelLoadError, match=text):
        SentenceFiles.read(tmp_path)


@pytest.mark.parametrize(
    ("architectures", "expected"),
    [
        (["BertModel"], True),
        (["RobertaForMaskedLM"], True),
        (["Qwen3ForCausalLM"], False),
        (["GPT2LMHeadModel"], False),
        ([], False),
        (None, False),
    ],
)
def test_architecture_identifies_an_encoder(architectures: list[str] | None, expected: bool, tmp_path: Path) -> None:  # noqa: FBT001  a table's column
    """A model without a head is an encoder; a model that predicts the next token is not."""
    write(tmp_path, config={"architectures": architectures})
    assert is_encoder(tmp_path) is expected


def test_modules_identify_an_encoder(tmp_path: Path) -> None:
    """modules.json identifies an encoder of any architecture; the bundled models are identified correctly."""
    write(tmp_path, modules=[], config={"architectures": ["Qwen3ForCausalLM"]})
    assert is_encoder(tmp_path)
    folder = embedding_folder()
    assert folder is not None
    assert is_encoder(folder)
    assert not is_encoder(DEMO_FOLDER)
    assert not is_encoder(tmp_path / "nowhere")
