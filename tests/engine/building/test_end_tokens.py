"""End-of-text ids that a model has and its tokenizer has not."""

from __future__ import annotations

from pathlib import Path

import torch

from service.engine.building.engines import build_engine
from service.generation.formats.constraint import Constraint, Grammar
from service.generation.requests.parameters import SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.building.test_build import SMALL, edit_json, write_tokenizer
from tests.engine.fakes import read
from tests.engine.folders.tiny_models import VOCAB_SIZE, save


async def test_end_of_text_ids_beyond_the_tokenizer_end_no_grammar(tmp_path: Path) -> None:
    """A model may have more ids than its tokenizer; constrained texts end at those that the tokenizer has."""
    save("qwen3", tmp_path, torch.bfloat16)
    write_tokenizer(tmp_path, VOCAB_SIZE - 4)
    edit_json(tmp_path / "generation_config.json", eos_token_id=[3, VOCAB_SIZE - 1])
    built = build_engine(str(tmp_path), SMALL)
    assert built.eos_token_ids == {3, VOCAB_SIZE - 1}
    constraint = Constraint(Grammar("start: /w[0-9]+/", "schema"))
    async with (
        built.engine as engine,
        engine.generate(
            GenerationRequest("r", [1], SamplingParams(), StopParams(max_tokens=5), constraint=constraint)
        ) as outputs,
    ):
        token_ids = [token_id for output in await read(outputs) for token_id in output.token_ids]
    assert token_ids
    assert all(token_id < VOCAB_SIZE - 4 for token_id in token_ids)
