"""On a CUDA device, torch's kernel, graphs and memory behave like their test doubles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from service.engine.interface.config import EngineConfig
from service.engine.loading.generator import load_model
from service.engine.models.attention.kv_cache import CacheShape
from service.engine.models.attention.page_cache import PageCache
from service.engine.models.attention.paged_inputs import PagedInputs
from service.engine.models.attention.scores import Scores
from service.engine.models.attention.varlen import VarlenPlan
from tests.engine.accelerator_double import REFERENCE
from tests.engine.building.test_build import write_tokenizer
from tests.engine.folders.tiny_models import Part, batch_of, config, random_model, tokens

pytestmark = pytest.mark.cuda
PAGE = 256
CUDA = torch.device("cuda")
PARTS = [
    Part(tokens(600), 599, 600, [4, 0, 2]),  # a decode
    Part(tokens(700, seed=1), 300, 700, [5, 1, 3]),  # a chunk
    Part(tokens(40, seed=2), 0, 40, [6]),  # a prompt
]


@pytest.mark.parametrize("window", [None, 1, 100])
@pytest.mark.parametrize("heads", [(8, 8), (8, 2), (14, 2)])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_kernel_equals_the_reference(
    dtype: torch.dtype, head_dim: int, heads: tuple[int, int], window: int | None
) -> None:
    """The kernel is correct over scattered pages, for a batch of prompts, chunks and decodes."""
    from service.engine.models.attention.cuda_device import FLASH_ATTENTION  # noqa: PLC0415

    torch.manual_seed(0)
    num_heads, num_kv_heads = heads
    cache = PageCache(CacheShape(1, num_kv_heads, head_dim, head_dim, dtype), 8, PAGE, CUDA)
    for pages in cache.pages(0):
        pages.normal_()
    inputs = PagedInputs.from_batch(batch_of(PARTS, PAGE), PAGE, CUDA)
    queries = torch.randn(len(inputs.token_ids), num_heads, head_dim, dtype=dtype, device=CUDA)
    found, expected = (
        VarlenPlan(kernel, cache, inputs, Scores(head_dim**-0.5), window)(0, queries)
        for kernel in (FLASH_ATTENTION, REFERENCE)
    )
    torch.testing.assert_close(found, expected, atol=2e-2, rtol=2e-2)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """Save a model with a head size that the kernel supports."""
    folder = tmp_path_factory.mktemp("cuda")
    made = random_model(
        config(
            "llama",
            vocab_size=101,
            hidden_size=256,
            intermediate_size=384,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=1024,
        )
    ).to(torch.bfloat16)
    made.save_pretrained(folder)
    write_tokenizer(folder)
    return made.to("cuda"), folder


@torch.inference_mode()
def test_steps_on_the_device_are_transformers_own(model: tuple[Any, Path]) -> None:
    """Logits of a prefill and of replayed decodes equal transformers' up to bfloat16's rounding.

    The cache has the size that the memory rule gives.
    """
    theirs, folder = model
    loaded = load_model(str(folder), EngineConfig(max_batch_sequences=4, num_threads=1), device="cuda")
    assert loaded.config.block_size == PAGE
    assert (loaded.config.num_blocks or 0) >= 16
    backend: Any = loaded.runner.backend
    ids = tokens(600, seed=3)
    expected: Tensor = theirs(torch.tensor([ids], device="cuda")).logits[0].float()
    cuts = [(0, 590), *((position, position + 1) for position in range(590, 600))]
    found = [backend.forward(batch_of([Part(ids, start, end, [7, 3, 5])], PAGE)).clone() for start, end in cuts]
    assert backend.num_replays == 10
    torch.testing.assert_close(torch.cat(found), expected, atol=0.15, rtol=0.05)
