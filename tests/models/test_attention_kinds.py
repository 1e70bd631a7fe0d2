"""Attention of every kind runs on the paged cache, and gives transformers' tokens and logprobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.models.comparison import CONFIG, compare
from tests.models.made import made

KINDS = {
    "gemma2": "scores that are capped, in layers with and without a window",
    "gpt_oss": "a sink a head",
    "deepseek_v3": "keys longer than values",
    "mimo_v2_flash": "sinks, windows, and keys longer than values, with other numbers of heads by layer",
    "gemma4_unified_text": "layers that store keys of different shapes",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_answers_equal_transformers(kind: str, tmp_path: Path) -> None:
    """Answers are equal with chunked prompts batched with decodes, and again with cached prefixes."""
    outcome = await compare(made(kind, tmp_path), tmp_path, replace(CONFIG, backend="transformers"))
    assert (outcome.backend, outcome.message) == ("transformers", "")
