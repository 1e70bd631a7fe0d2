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
from tests.engine.folders.gguf_families import FAMILIES, model_of
from tests.engine.folders.gguf_llamas import LLAMAS
from tests.engine.folders.gguf_writer import write_file
from tests.models.families import VARIANTS, random_model, some_tokens
from tests.models.shapes import small

LENGTH, NUM_TOKENS = 20, 6
# llama.cpp's flash attention rounds to float16, which can change the choice of experts.
IN_FLOAT32 = ("--cache-type-k", "f32", "--cache-type-v", "f32", "--flash-attn", "off")
_HEADS = {"linear_key_head_dim": 16, "linear_value_head_dim": 16}  # llama.cpp requires keys as wide as values
# llama.cpp has the long factors for all positions if its context is longer than the trained length.
_LENGTH = 2048
_PHI3 = {
    "rope_parameters": small("phi3").rope_parameters | {"original_max_position_embeddings": _LENGTH},
    "original_max_position_embeddings": _LENGTH,
    "max_position_embeddings": _LENGTH,
    "sliding_window": None,  # llama.cpp ignores that of Phi-3
}
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
    "phi3": _PHI3,
    **{name: family.options for name, family in LLAMAS.items()},
}

# Models as `write_family` writes them. llama.cpp rejects the shapes of others.
AS_WRITTEN = (
    "arcee",
    "bitnet",
    "cohere",
    "cohere2",
    "deepseek_v3, yarn",
    "ernie4_5",
    "falcon",
    "falcon, one norm",
    "falcon, two norms",
    "gemma",
    "gemma2",
    "gemma3_text",
    "gemma3_text, capped logits",
    "gemma4_text",
    "gemma4_text, experts",
    "gemma4_text, no inputs",
    "glm",
    "glm4",
    "glm4_moe_lite",
    "gpt_neox",
    "gpt_neox, sequential",
    "granite",
    "granite, multipliers",
    "granitemoe",
    "granitemoehybrid",
    "granitemoeshared",
    "hunyuan_v1_dense",
    "hunyuan_v1_dense, stretched",
    "hunyuan_v1_moe",
    "jais2",
    "jamba",
    "lfm2",
    "lfm2_moe",
    "mamba",
    "mamba2",
    "minicpm3",
    "minicpm3, long",
    "minimax_m2",
    "minimax_m2, partly rotated",
    "mixtral",
    "nemotron, biases",
    "nemotron_h, experts",
    "olmo",
    "olmo, limited",
    "olmo2",
    "olmo3",
    "phi",
    "qwen2_moe",
    "qwen3_moe",
    "smollm3",
    "stablelm, parallel",
    "starcoder2",
)


def _usable(writer: gguf.GGUFWriter, config: Any) -> None:
    """Add what llama.cpp requires of a file in addition."""
    if config.model_type in {"qwen3_5_text", "qwen3_5_moe_text"}:
        writer.add_rope_dimension_sections([1, 1, 0, 0])


@pytest.mark.long
@pytest.mark.skipif(not LLAMA_SERVER.is_file(), reason="llama.cpp is not installed")
@pytest.mark.parametrize("name", [*OPTIONS, *AS_WRITTEN])
def test_llama_cpp_answers_with_the_tokens_of_the_model(name: str, tmp_path: Path) -> None:
    kind, _, _ = name.partition(", ")
    options = OPTIONS.get(name)
    model = model_of(name) if options is None else random_model(small(kind, **VARIANTS.get(name, {}) | options))
    family = FAMILIES[name]

    def more(writer: gguf.GGUFWriter, config: Any) -> None:
        family.more(writer, config)
        _usable(writer, config)

    write_file(replace(family, more=more), model, tmp_path / "tiny.gguf")
    ids: list[int] = list(some_tokens(0, LENGTH))
    with torch.inference_mode():
        for _ in range(NUM_TOKENS):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    with llama_server(tmp_path / "tiny.gguf", *IN_FLOAT32) as address:
        assert llama_answer(address, ids[:LENGTH])[:NUM_TOKENS] == ids[LENGTH:]
