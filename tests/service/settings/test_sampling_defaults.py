"""The sampling parameters in a model's generation_config.json are the defaults of requests."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from service.contract.parts.parameters import RANGES
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import ModelLoadError
from service.generation.prompts.conversation import RawText
from service.generation.requests.answer_request import AnswerRequest
from service.prompting.preparation import Preparation
from service.prompting.sampling_defaults import read_sampling_defaults
from service.prompts.preparing.workers import WorkerLimits, Workers
from tests.service.preparation.fakes import TOKENIZER


def request_of(**given: Any) -> AnswerRequest:
    return AnswerRequest("tiny", (RawText("hello", "prompts[0]"),), "prompts", **given)


def read(folder: Path, content: Any) -> dict[str, float]:
    (folder / "generation_config.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return dict(read_sampling_defaults(folder, RANGES))


def test_parameters_of_requests_are_read(tmp_path: Path) -> None:
    """Request parameters are read by their own names; other fields are ignored, and a missing file has no defaults."""
    assert dict(read_sampling_defaults(tmp_path, RANGES)) == {}
    content = {
        "do_sample": True,
        "temperature": 0.6,
        "top_k": 20,
        "top_p": 0.95,
        "eos_token_id": 2,
        "max_new_tokens": 5,
    }
    assert read(tmp_path, content) == {"temperature": 0.6, "top_k": 20, "top_p": 0.95}


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", 7), ("top_p", 0), ("top_p", "high"), ("min_p", True), ("top_k", 0.5), ("top_k", -1)],
)
def test_defaults_out_of_range_are_ignored_with_a_warning(
    name: str, value: object, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning names them and their ranges; the other values apply."""
    with caplog.at_level(logging.WARNING):
        assert read(tmp_path, {name: value, "repetition_penalty": 1.05}) == {"repetition_penalty": 1.05}
    assert name in caplog.text
    assert "must be" in caplog.text


def test_null_top_k_disables_top_k(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Transformers writes it this way; there is no warning."""
    assert read(tmp_path, {"top_k": 0}) == {}
    assert not caplog.text


@pytest.mark.parametrize("content", ["{", "[]", "3"])
def test_unreadable_file_fails_the_load(content: str, tmp_path: Path) -> None:
    """The error names the file."""
    with pytest.raises(ModelLoadError, match=r"generation_config\.json can't be used"):
        read(tmp_path, content)


async def test_request_parameters_override_the_models_per_field() -> None:
    """Given values take precedence, even if they equal the contract's defaults; the rest is from the model."""
    tokenizer: FastTokenizer = TOKENIZER
    defaults = {"temperature": 0.6, "top_p": 0.95, "top_k": 20}
    preparation = Preparation("tiny", tokenizer, 64, None, Workers(WorkerLimits()), sampling_defaults=defaults)
    plain = (await preparation.prepare(request_of(), "r")).sampling
    assert (plain.temperature, plain.top_p, plain.top_k) == (0.6, 0.95, 20)
    own = request_of(given=frozenset({"temperature", "top_p"}))
    given = (await preparation.with_adapter("tiny:a", "a").prepare(own, "r")).sampling
    assert (given.temperature, given.top_p, given.top_k) == (1.0, 1.0, 20)
    off = request_of(given=frozenset({"top_k"}))
    assert (await preparation.prepare(off, "r")).sampling.top_k is None
    preparation.close()
