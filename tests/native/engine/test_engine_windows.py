"""An engine whose model has sliding layers: the same answers in any company, and few blocks for a long context."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.models.made import made
from tests.models.shapes import VOCAB_SIZE
from tests.native.stepped_engine import Engine

WINDOW = 20
FULL, SLIDING = "full_attention", "sliding_attention"
MODELS: dict[str, dict[str, Any]] = {
    "gemma3_text": {"layer_types": [SLIDING, SLIDING, FULL, SLIDING]},
    "gpt_oss": {},
    "olmo3": {},
    "ministral": {"layer_types": [SLIDING] * 4},
}
NUM_BLOCKS = {"gemma3_text": 48, "gpt_oss": 24, "olmo3": 38, "ministral": 12}


def requests() -> list[GenerationRequest]:
    """Return requests of which some share a prefix that is longer than the window."""
    draw = random.Random(0)
    shared = draw.choices(range(2, VOCAB_SIZE), k=70)
    return [
        GenerationRequest(
            "r",
            shared[: draw.choice([0, 33, 70])] + draw.choices(range(2, VOCAB_SIZE), k=draw.choice([5, 12, 60])),
            SamplingParams(temperature=draw.choice([0.0, 1.0]), seed=index),
            StopParams(draw.choice([20, 110]), ignore_eos=True),
            n=draw.choice([1, 1, 2]),
            logprobs=LogprobsOptions(2),
        )
        for index in range(10)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_windows_change_no_bit_of_an_answer(kind: str, tmp_path: Path) -> None:
    """Tokens and logprobs are those of requests alone, with preemptions, cached prefixes, drafts and short chunks."""
    made(kind, tmp_path, sliding_window=WINDOW, **MODELS[kind])
    alone = Engine("float32", tmp_path, prefix_caching=False, speculation=False, num_threads=1, num_blocks=200)
    sizes = {"num_blocks": NUM_BLOCKS[kind], "max_batch_tokens": 16, "max_batch_sequences": 6}
    small = Engine("float32", tmp_path, count(0.0, 0.001).__next__, num_threads=1, **sizes)
    for serial, request in enumerate(requests()):
        small.add(serial, request)
        small.step()
        small.check()
    while small.core.has_work:
        small.step()
        small.check()
    stats = small.stats
    assert stats is not None
    assert stats.num_prefix_hit_tokens > 0
    assert stats.num_preemptions > 0 or kind == "ministral"  # its sequences do not grow beyond their windows
    assert stats.num_accepted_draft_tokens > 0 or kind != "gemma3_text"  # the others' answers do not repeat
    assert stats.num_free_blocks == stats.num_blocks
    for serial, request in enumerate(requests()):
        alone.add(serial, request)
        while alone.core.has_work:
            alone.step()
        assert small.answers(serial) == alone.answers(serial)


@pytest.mark.parametrize("kind", ["gemma3_text", "ministral"])
def test_a_draft_model_uses_the_blocks_of_a_group_that_keeps_all_tokens(kind: str, tmp_path: Path) -> None:
    """With the same model as its draft, answers are those without drafts, and all drafts are accepted."""
    made(kind, tmp_path, sliding_window=WINDOW, **MODELS[kind])
    alone = Engine("float32", tmp_path, speculation=False, num_threads=1, num_blocks=200)
    drafted = Engine("float32", tmp_path, draft_model=str(tmp_path), num_threads=1, num_blocks=200)
    request = GenerationRequest("r", list(range(2, 62)), SamplingParams(0.0), StopParams(60, ignore_eos=True))
    for engine in (alone, drafted):
        engine.add(0, request)
        while engine.core.has_work:
            engine.step()
            engine.check()
    assert drafted.answers(0) == alone.answers(0)
    assert drafted.stats is not None
    assert 0 < drafted.stats.num_draft_tokens == drafted.stats.num_accepted_draft_tokens


def test_a_sequence_is_longer_than_the_blocks_of_full_layers_would_allow(tmp_path: Path) -> None:
    """A context of 200 tokens, 13 blocks, runs in a cache of 13 blocks for the full layer and 9 for the others."""
    made("gemma3_text", tmp_path, sliding_window=WINDOW, **MODELS["gemma3_text"])
    engine = Engine(
        "float32", tmp_path, num_threads=1, num_blocks=13 + 3 * 3, max_batch_tokens=8, max_batch_sequences=1
    )
    engine.add(0, GenerationRequest("r", list(range(2, 62)), SamplingParams(0.0), StopParams(140, ignore_eos=True)))
    while engine.core.has_work:
        engine.step()
        engine.check()
    assert len(engine.answers(0)[0]["token_ids"]) == 140
