"""Files of GGUF families, read by llama.cpp: its greedy tokens are those of the model that a file was written from.

Run where llama.cpp's server is installed (`tools/install.sh llama`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch

from bench.engine.gguf_greedy import llama_answer, llama_server
from bench.serving.servers import LLAMA_SERVER
from tests.engine.folders.gguf_families import FAMILIES
from tests.engine.folders.gguf_llamas import LLAMAS
from tests.engine.folders.gguf_writer import write_file
from tests.models.families import VARIANTS, random_model, some_tokens
from tests.models.shapes import small

LENGTH, NUM_TOKENS = 20, 6
_HEADS = {"linear_key_head_dim": 16, "linear_value_head_dim": 16}  # llama.cpp requires keys as wide as values
# Options of the small models: llama.cpp knows no biases in latent attention.
OPTIONS: dict[str, dict[str, Any]] = {
    "apertus": {},
    "deepseek_v3, groups": {"attention_bias": False},
    "ernie4_5_moe": {},
    "falcon_h1, multipliers": {},
    "glm4_moe": {},
    "ministral3, long": {"sliding_window": None},
    "qwen3_5_text": _HEADS,
    "qwen3_5_moe_text": _HEADS,
    "qwen3_next": _HEADS | {"norm_topk_prob": True},
    **{name: family.options for name, family in LLAMAS.items()},
}


def _usable(writer: gguf.GGUFWriter, config: Any) -> None:
    """Add what llama.cpp requires of a file in addition."""
    if config.model_type in {"qwen3_5_text", "qwen3_5_moe_text"}:
        writer.add_rope_dimension_sections([1, 1, 0, 0])


@pytest.mark.long
@pytest.mark.skipif(not LLAMA_SERVER.is_file(), reason="llama.cpp is not installed")
@pytest.mark.parametrize("name", OPTIONS)
def test_llama_cpp_answers_with_the_tokens_of_the_model(name: str, tmp_path: Path) -> None:
    kind, _, _ = name.partition(", ")
    model = random_model(small(kind, **VARIANTS.get(name, {}) | OPTIONS[name]))
    family = FAMILIES[name]

    def more(writer: gguf.GGUFWriter, config: Any) -> None:
        family.more(writer, config)
        _usable(writer, config)

    write_file(replace(family, more=more), model, tmp_path / "tiny.gguf")
    ids: list[int] = list(some_tokens(0, LENGTH))
    with torch.inference_mode():
        for _ in range(NUM_TOKENS):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    with llama_server(tmp_path / "tiny.gguf", "--cache-type-k", "f32", "--cache-type-v", "f32") as address:
        assert llama_answer(address, ids[:LENGTH])[:NUM_TOKENS] == ids[LENGTH:]
