"""Cross-encoders give transformers' scores in batches, and their files' conventions are followed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from service.engine.building.engines import build_cross_encoder
from service.engine.interface.config import EngineConfig
from service.engine.models.checkpoint.encoders.pair_files import PairFiles, is_cross_encoder
from service.engine.models.checkpoint.encoders.sentence_files import is_encoder
from service.generation.errors import ModelLoadError
from service.generation.requests.embedding import EmbeddingRequest
from service.generation.stats import EngineStats
from service.loading.model import load_model
from service.prompts.pairs.framed_pairs import FramedPairs
from service.prompts.pairs.pair_reader import PairTexts
from service.settings.config import Settings
from tests.engine.encoder_fakes import CONFIGS, modules, save_encoder
from tests.engine.pair_fakes import PAIRS, reference_scores, save_cross_encoder

torch.set_num_threads(1)


class NullObserver:
    """An observer that ignores steps."""

    def on_step(self, stats: EngineStats) -> None:
        """Do nothing."""


THREAD = EngineConfig(worker="thread")


async def scores(folder: Path, pairs: list[tuple[str, str]], **fields: Any) -> list[float]:
    """Return the engine's scores of pairs in one request."""
    built = build_cross_encoder(folder, THREAD, device="cpu")
    reader = FramedPairs(built.tokenizer, built.info.max_model_len)
    read = [reader.read(PairTexts(first, second, "query", "documents[0]", **fields)) for first, second in pairs]
    request = EmbeddingRequest(
        "r", [each.token_ids for each in read], second_starts=[each.second_start for each in read]
    )
    async with built.engine as engine:
        return [float(vector[0]) for vector in (await engine.embed(request)).vectors]


@pytest.mark.parametrize("kind", CONFIGS)
async def test_cross_encoder_equals_transformers(kind: str, tmp_path: Path) -> None:
    """Each family's scores in padded batches equal its model's scores of each pair alone, within 1e-4."""
    model = save_cross_encoder(kind, tmp_path)
    assert is_cross_encoder(tmp_path)
    expected = reference_scores(tmp_path, model, PAIRS)
    assert await scores(tmp_path, PAIRS) == pytest.approx(expected, abs=1e-4)
    assert len({round(score, 3) for score in expected}) == len(PAIRS)  # the scores differ


async def test_segments_are_used_unless_the_files_say_otherwise(tmp_path: Path) -> None:
    """BERT's token types change its scores; they are left out if the tokenizer's inputs have none."""
    model = save_cross_encoder("bert", tmp_path)
    with_segments = await scores(tmp_path, PAIRS)
    model.config.type_vocab_size = 0  # in the reference
    (tmp_path / "tokenizer_config.json").write_text('{"model_input_names": ["input_ids", "attention_mask"]}')
    assert not PairFiles.read(tmp_path).has_segments
    without_segments = await scores(tmp_path, PAIRS)
    assert without_segments == pytest.approx(reference_scores(tmp_path, model, PAIRS), abs=1e-4)
    assert np.abs(np.array(with_segments) - without_segments).max() > 1e-3


@pytest.mark.parametrize(("first", "second"), [(30, 3), (3, 30), (30, 31), (18, 60), (19, 60), (60, 18)])
async def test_long_pairs_are_cut_as_by_transformers(first: int, second: int, tmp_path: Path) -> None:
    """The longer text is truncated at its end, token by token."""
    model = save_cross_encoder("bert", tmp_path)
    pair = [(" ".join(f"w{10 + i % 50}" for i in range(first)), " ".join(f"w{11 + i % 50}" for i in range(second)))]
    assert await scores(tmp_path, pair, truncates=True) == pytest.approx(
        reference_scores(tmp_path, model, pair, 40 if first + second > 37 else None), abs=1e-4
    )


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, "sigmoid"),
        ({"config": {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}}, "identity"),
        ({"config": {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}}, "identity"),
        ({"config": {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}}}, "sigmoid"),
        ({"config_sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}, "identity"),
    ],
)
def test_activation_is_what_the_files_say(files: dict[str, Any], expected: str, tmp_path: Path) -> None:
    """The activation is read in each of sentence-transformers' spellings; the default is sigmoid."""
    save_cross_encoder("bert", tmp_path, **files)
    assert PairFiles.read(tmp_path).activation == expected


@pytest.mark.parametrize(
    ("num_labels", "files", "text"),
    [
        (3, {}, "a classifier of 3 labels can't be served; a cross-encoder has one"),
        (1, {"config": {"sentence_transformers": {"activation_fn": "torch.nn.Tanh"}}}, "sigmoid|not torch.nn.Tanh"),
        (
            1,
            {"config": {"quantization_config": {"quant_method": "gptq"}}},
            "quantized weights are not supported for encoders",
        ),
    ],
)
def test_what_cannot_be_scored_is_refused(num_labels: int, files: dict[str, Any], text: str, tmp_path: Path) -> None:
    """The error names the file and what is wrong with it."""
    save_cross_encoder("bert", tmp_path, num_labels=num_labels, **files)
    with pytest.raises(ModelLoadError, match=text):
        build_cross_encoder(tmp_path, THREAD, device="cpu")


def test_length_is_what_tokenizer_and_positions_allow(tmp_path: Path) -> None:
    """The length is the shorter of the two limits; the placeholder for no limit is ignored."""
    save_cross_encoder("bert", tmp_path, tokenizer_config={"model_max_length": 16})
    assert build_cross_encoder(tmp_path, THREAD, device="cpu").info.max_model_len == 16
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 1000000000000000019884624838656}')
    assert build_cross_encoder(tmp_path, THREAD, device="cpu").info.max_model_len == 40


def test_a_folder_is_of_one_kind(tmp_path: Path) -> None:
    """A folder gives vectors if modules.json pools, scores if it has a classifier, and neither otherwise."""
    save_encoder("bert", tmp_path / "vectors")
    save_cross_encoder("bert", tmp_path / "scores")
    save_cross_encoder("bert", tmp_path / "both", modules={})
    (tmp_path / "both/modules.json").write_text(str(modules("Transformer", "Pooling")).replace("'", '"'))
    kinds = {
        each: (is_encoder(tmp_path / each), is_cross_encoder(tmp_path / each)) for each in ("vectors", "scores", "both")
    }
    assert kinds == {"vectors": (True, False), "scores": (False, True), "both": (True, False)}
    assert not is_cross_encoder(tmp_path / "nowhere")


def test_model_that_answers_yes_or_no_is_a_generator(tmp_path: Path) -> None:
    """Qwen3-Reranker, which sentence-transformers stores with a module LogitScore, is a generating model."""
    (tmp_path / "modules.json").write_text(json.dumps(modules("Transformer", "LogitScore")))
    (tmp_path / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"]}')
    assert (is_encoder(tmp_path), is_cross_encoder(tmp_path)) == (False, False)


@pytest.mark.parametrize("architecture", ["BertForTokenClassification", "Qwen3ForQuestionAnswering"])
def test_heads_for_other_tasks_are_refused_by_their_name(architecture: str, tmp_path: Path) -> None:
    """The error is raised before the weights are read."""
    (tmp_path / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    (settings,) = Settings(model={"m": str(tmp_path)}, device="cpu").served_models()
    with pytest.raises(
        ModelLoadError, match=f"a {architecture} can't be served: it neither generates nor makes vectors"
    ):
        load_model(settings, NullObserver())
