"""A snapshot of the cache: an engine that starts again computes no known prompt again, and gives the same answers."""

from __future__ import annotations

import base64
import logging
import random
from pathlib import Path
from typing import Any

import pytest

from service.engine.interface.messages import StopCore
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.models.made import made
from tests.models.shapes import VOCAB_SIZE
from tests.native.stepped_engine import Engine

FULL, SLIDING = "full_attention", "sliding_attention"
# Attention, sliding layers, latents, and each way to keep a state.
KINDS: dict[str, dict[str, Any]] = {
    "qwen2": {},
    "gemma3_text": {"layer_types": [SLIDING, SLIDING, FULL, SLIDING], "sliding_window": 20},
    "deepseek_v3": {},
    "lfm2": {},
    "jamba": {},
}
SIZES = {"num_threads": 1, "num_blocks": 80, "max_batch_sequences": 4}


def prompt(length: int, seed: int = 0) -> list[int]:
    return random.Random(seed).choices(range(3, VOCAB_SIZE), k=length)


def request(token_ids: list[int], cache_group: str = "", **options: Any) -> GenerationRequest:
    stopping = StopParams(20, ignore_eos=True)
    sampling = SamplingParams(temperature=1.0, seed=1)
    return GenerationRequest(
        "r", token_ids, sampling, stopping, logprobs=LogprobsOptions(2), cache_group=cache_group, **options
    )


def answer(engine: Engine, wanted: GenerationRequest) -> tuple[dict[int, dict[str, Any]], int]:
    """Return the answer to a request, and the number of prompt tokens that were found in the cache."""
    engine.add(0, wanted)
    while engine.core.has_work:
        engine.step()
        engine.check()
    return engine.answers(0), engine.outputs[0][-1].num_cached_tokens


def start(model: Path, cache_folder: Path | None, **sizes: Any) -> Engine:
    engine = Engine("float32", model, cache_folder=cache_folder, **SIZES | sizes)
    engine.check()
    return engine


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_restarted_engine_finds_the_prompts_of_the_one_before(kind: str, tmp_path: Path) -> None:
    """A conversation continues with the same bits as computed again, and only its new part is computed."""
    made(kind, tmp_path / "model", **KINDS[kind])
    cache = tmp_path / "cache"
    turn = prompt(100)
    first = start(tmp_path / "model", cache)
    answers, num_cached = answer(first, request(turn))
    assert num_cached == 0
    turn += [*answers[0]["token_ids"], *prompt(10, 1)]
    first.core.receive(StopCore())
    again = start(tmp_path / "model", cache)
    assert again.core.report().stats[-1].num_adopted_blocks > 0
    found, num_cached = answer(again, request(turn))
    expected, _ = answer(start(tmp_path / "model", None), request(turn))
    assert found == expected
    assert num_cached >= 96


def test_a_snapshot_is_of_the_same_weights_settings_and_key(tmp_path: Path) -> None:
    """Other weights, another type of keys or another key find nothing, and nothing fails."""
    model, cache, turn = tmp_path / "model", tmp_path / "cache", prompt(100)
    made("qwen2", model)
    first = start(model, cache)
    answer(first, request(turn, "key a"))
    first.core.receive(StopCore())
    assert answer(start(model, cache), request(turn, "key b"))[1] == 0
    assert answer(start(model, cache, kv_cache_dtype="bfloat16"), request(turn, "key a"))[1] == 0
    assert answer(start(model, cache), request(turn, "key a"))[1] == 96
    weights = model / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-2] ^= 1  # too small a change for the model's fingerprint, which covers samples of large files
    weights.write_bytes(content)
    assert answer(start(model, cache), request(turn, "key a"))[1] == 0


def test_an_encrypted_snapshot_is_used_with_its_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Answers are the same; with another key, or without one, nothing is found, and the log has the reason."""
    model, cache, turn = tmp_path / "model", tmp_path / "cache", prompt(100)
    made("qwen2", model)
    key, other = tmp_path / "key", tmp_path / "other key"
    for number, path in enumerate((key, other)):
        path.write_bytes(base64.b64encode(bytes([number]) * 32))
    first = start(model, cache)
    expected, _ = answer(first, request(turn))
    first.core.receive(StopCore())
    second = start(model, cache, cache_key_file=key)  # removes the plain file
    assert list(cache.iterdir()) == []
    assert answer(second, request(turn)) == (expected, 0)
    second.core.receive(StopCore())
    for file, num_cached, reason in (
        (other, 0, "encrypted with another key"),
        (None, 0, "is encrypted, and no key"),
        (key, 96, ""),
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert answer(start(model, cache, cache_key_file=file), request(turn)) == (expected, num_cached)
        assert reason in caplog.text
        assert bool(caplog.text) == bool(reason)
    (stored,) = cache.iterdir()
    before = stored.read_bytes()
    key.write_text("c2hvcnQ=")
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        last = start(model, cache, cache_key_file=key)
    assert "the key must have 32 bytes" in caplog.text
    assert answer(last, request(turn)) == (expected, 0)
    last.core.receive(StopCore())
    assert stored.read_bytes() == before


def test_the_folder_is_private_and_bounded(tmp_path: Path) -> None:
    """A snapshot keeps the most recent prompts within the limit, and replaces the files of other models."""
    model, cache = tmp_path / "model", tmp_path / "cache"
    made("qwen2", model)
    cache.mkdir()
    (cache / f"{0:032}.cache").write_bytes(bytes(40_000))
    first = start(model, cache, cache_folder_bytes=60_000)
    for seed in range(4):
        answer(first, request(prompt(60, seed)))
    first.core.receive(StopCore())
    (file,) = cache.iterdir()
    assert 30_000 < file.stat().st_size <= 60_000
    assert file.stat().st_mode & 0o777 == 0o600
    again = start(model, cache)
    assert answer(again, request(prompt(60, 3)))[1] == 48
    assert answer(again, request(prompt(60, 0)))[1] == 0


def test_a_folder_that_cannot_be_used_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The engine starts, answers and stops without it."""
    model = tmp_path / "model"
    made("qwen2", model)
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING):
        engine = start(model, tmp_path / "file")
        answer(engine, request(prompt(60)))
        engine.core.receive(StopCore())
    assert "can't be used" in caplog.text
    assert "can't be saved" in caplog.text
