"""Attention of every kind runs over the paged cache, and gives transformers' tokens and logprobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

from tests.models.comparison import compare, save
from tests.models.shapes import small

KINDS = {
    "gemma2": "scores that are capped, in layers with and without a window",
    "gpt_oss": "a sink a head",
    "deepseek_v3": "keys longer than values",
    "mimo_v2_flash": "sinks, windows, and keys longer than values, with other numbers of heads by layer",
    "gemma4_unified_text": "layers that store keys of different shapes",
}


@pytest.mark.parametrize("kind", KINDS)
async def test_answers_equal_transformers(kind: str, tmp_path: Path) -> None:
    """Prompts in chunks beside decodes, then the same from what the cache has of them."""
    config = small(kind)
    torch.manual_seed(0)
    cls: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    save(cls(config), tmp_path)
    outcome = await compare(cls.from_pretrained(tmp_path, dtype=torch.float32).eval(), tmp_path)
    assert (outcome.backend, outcome.message) == ("transformers", "")
