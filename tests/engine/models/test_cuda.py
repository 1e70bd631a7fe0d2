"""On a CUDA device, kernels, graphs and memory behave like their test doubles, and answers don't depend on company."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.engine_core import EngineCore
from service.engine.core.scheduler import Scheduler
from service.engine.interface.config import EngineConfig
from service.engine.loading.generator import load_model
from service.engine.models.attention.kv_cache import CacheShape
from service.engine.models.attention.page_cache import PageCache
from service.engine.models.attention.paged_inputs import PagedInputs
from service.engine.models.attention.scores import Scores
from service.engine.runner.ahead_runner import AheadRunner
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.accelerator_double import PlainKernels
from tests.engine.building.test_build import write_tokenizer
from tests.engine.driving import drive
from tests.engine.fakes import group_of
from tests.engine.folders.tiny_models import Part, batch_of, config, random_model, tokens

pytestmark = pytest.mark.cuda
CUDA = torch.device("cuda")
PAGE = 64
PARTS = [
    Part(tokens(600), 599, 600, [*range(10)]),  # a decode
    Part(tokens(700, seed=1), 300, 700, [*range(20, 9, -1)]),  # a chunk
    Part(tokens(40, seed=2), 0, 40, [22]),  # a prompt
]
NUM_ANSWERS, ANSWER = 200, 24


@pytest.mark.parametrize("window", [None, 1, 100])
@pytest.mark.parametrize("heads", [(8, 8), (8, 2), (14, 2)])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_attention_equals_the_reference(
    dtype: torch.dtype, head_dim: int, heads: tuple[int, int], window: int | None
) -> None:
    """Attention is correct over scattered pages, for a batch of prompts, chunks and decodes."""
    from service.engine.models.cuda.kernels import TritonKernels  # noqa: PLC0415

    torch.manual_seed(0)
    num_heads, num_kv_heads = heads
    cache = PageCache(CacheShape(1, num_kv_heads, head_dim, head_dim, dtype), 24, PAGE, CUDA)
    for pages in cache.pages(0):
        pages.normal_()
    inputs = PagedInputs.from_batch(batch_of(PARTS, PAGE), PAGE, CUDA)
    queries = torch.randn(len(inputs.token_ids), num_heads, head_dim, dtype=dtype, device=CUDA)
    found, expected = (
        kernels.attend(queries, cache, 0, inputs, scores=Scores(head_dim**-0.5), window=window, sinks=None)
        for kernels in (TritonKernels(1024, is_invariant=False), PlainKernels())
    )
    torch.testing.assert_close(found, expected, atol=2e-2, rtol=2e-2)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """Save a model."""
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
    table = [7, 3, 5, 9, 2, 8, 1, 4, 6, 0]
    found = [backend.forward(batch_of([Part(ids, start, end, table)], PAGE)).clone() for start, end in cuts]
    assert backend.num_replays == 10
    torch.testing.assert_close(torch.cat(found), expected, atol=0.15, rtol=0.05)


def answers(
    folder: str, prompts: list[list[int]], lengths: list[int], max_sequences: int, *, looks_ahead: bool
) -> list[Any]:
    """Return the tokens and logprobs of all prompts, which an engine with invariant kernels answers together."""
    settings = EngineConfig(
        max_batch_sequences=max_sequences, max_batch_tokens=300, num_threads=1, batch_invariant=True, num_blocks=400
    )
    loaded = load_model(folder, settings, device="cuda")
    assert loaded.info.is_invariant
    scheduler = Scheduler(loaded.config, BlockPool(400, loaded.config.block_size or 0))
    scheduler.lookahead.is_on = looks_ahead
    assert isinstance(loaded.runner, AheadRunner)
    assert loaded.runner.computes_ahead
    core = EngineCore(scheduler, loaded.runner)
    groups = [
        group_of(
            GenerationRequest(
                str(number),
                prompt,
                SamplingParams(temperature=0),
                StopParams(max_tokens=length, ignore_eos=True),
                logprobs=LogprobsOptions(1),
            ),
            max_model_len=1024,
        )
        for number, (prompt, length) in enumerate(zip(prompts, lengths, strict=True))
    ]
    outputs, errors = drive(core, groups)
    assert not errors
    return [
        [(token, value.logprob) for each in output for token, value in zip(each.token_ids, each.logprobs, strict=True)]
        for output in outputs
    ]


def in_own_process(*arguments: Any, looks_ahead: bool) -> list[Any]:
    """Run `answers` in a new process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(answers, *arguments, looks_ahead=looks_ahead).result()


def test_answers_do_not_depend_on_company_chunks_or_process(model: tuple[Any, Path]) -> None:
    """Each answer is resumed in another process, from a token of its own, in other company: equal to the bit.

    There the tokens before are a prompt, prompts are computed in chunks, and nothing is computed ahead.
    """
    folder = str(model[1])
    prompts = [tokens(5 + 7 * number % 400, seed=number) for number in range(NUM_ANSWERS)]
    whole = in_own_process(folder, prompts, [ANSWER] * NUM_ANSWERS, 64, looks_ahead=True)
    given = [number % ANSWER for number in range(NUM_ANSWERS)]
    longer = [
        [*prompt, *(token for token, _ in answer[:count])]
        for prompt, answer, count in zip(prompts, whole, given, strict=True)
    ]
    resumed = in_own_process(folder, longer, [ANSWER - count for count in given], 7, looks_ahead=False)
    expected = [answer[count:] for answer, count in zip(whole, given, strict=True)]
    assert sum(map(len, expected)) > NUM_ANSWERS
    assert resumed == expected
