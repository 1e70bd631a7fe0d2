"""The logprobs of a prompt's own tokens, regardless of the chunks in which it is computed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from service.engine.building.engines import build_engine
from service.engine.interface.config import EngineConfig
from service.generation.outputs.output import GenerationOutput
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.fakes import Bench, config_of, read
from tests.engine.fakes import request as engine_request

FOLDER = Path(__file__).parents[3] / "demo" / "model"
PROMPT = "The quick brown fox jumps over the lazy dog, and the dog sleeps on. " * 5


def request(token_ids: list[int], top_logprobs: int | None, **fields: Any) -> GenerationRequest:
    stopping = StopParams(max_tokens=3, ignore_eos=True)
    options = None if top_logprobs is None else LogprobsOptions(top_logprobs)
    return GenerationRequest("r", token_ids, SamplingParams(seed=1), stopping, prompt_logprobs=options, **fields)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{}, {"max_batch_tokens": 24, "max_batch_sequences": 8}], ids=["whole", "pieces"])
async def test_prompt_logprobs_are_the_models_own(sizes: dict[str, Any]) -> None:
    """They equal those of a plain forward pass within 1e-4.

    This holds with several choices, with other requests in the batch, and for a cached prompt.
    """
    config = EngineConfig(num_blocks=128, num_threads=1, **sizes)
    built = build_engine(str(FOLDER), config, compute_dtype="float32")
    token_ids = built.tokenizer.encode(PROMPT)
    reference: Any = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)
    with torch.inference_mode():
        expected = reference(torch.tensor([token_ids])).logits[0, :-1].log_softmax(dim=-1)

    async def ask(wanted: GenerationRequest) -> list[GenerationOutput]:
        async with engine.generate(wanted) as outputs:
            return await read(outputs)

    async with built.engine as engine:
        plain = await ask(request(token_ids, None, logprobs=LogprobsOptions()))
        answers = await asyncio.gather(
            ask(request(token_ids, 3, logprobs=LogprobsOptions())),
            ask(request(token_ids, None)),
            ask(request(token_ids, 0, n=3)),
        )
    for outputs, num_candidates, num_choices in ((answers[0], 3, 1), (answers[2], 0, 3)):
        firsts = [next(o for o in outputs if o.choice_index == index) for index in range(num_choices)]
        logprobs = firsts[0].prompt_logprobs
        assert [each.token_id for each in logprobs] == token_ids[1:]
        for row, each in zip(expected, logprobs, strict=True):
            assert each.logprob == pytest.approx(row[each.token_id].item(), abs=1e-4)
            best = row.topk(num_candidates).values.tolist()
            assert [logprob for _, logprob in each.top] == pytest.approx(best, abs=1e-4)
        assert sum(len(output.prompt_logprobs) for output in outputs) == len(token_ids) - 1
    assert not any(output.prompt_logprobs for output in (*plain, *answers[1]))
    generated = [[i for output in outputs for i in output.token_ids] for outputs in (plain, answers[0], answers[1])]
    assert generated[0] == generated[1] == generated[2]


async def test_prompt_of_one_token_has_no_logprobs() -> None:
    """The first token of a prompt has no logprob."""
    built = build_engine(str(FOLDER), EngineConfig(num_blocks=128, num_threads=1))
    async with built.engine as engine, engine.generate(request([70], 2)) as outputs:
        assert not any(output.prompt_logprobs for output in await read(outputs))


def test_prompt_is_computed_completely_and_in_small_chunks() -> None:
    """A cached prompt is computed again, with at most 64 tokens per step, since each needs a row of logits."""
    bench = Bench(config_of(num_blocks=64, max_model_len=256))
    for prompt_logprobs in (None, LogprobsOptions(), None):
        bench.add(engine_request("x" * 100, max_tokens=2, prompt_logprobs=prompt_logprobs, n=2))
        bench.run()
    bench.assert_idle()
    shares: list[list[int]] = [[], [], []]
    for step in bench.runner.steps:
        for serial, num_new_tokens in step:
            shares[serial].append(num_new_tokens)
    assert shares == [[100, 1, 4, 1], [64, 36, 1, 4, 1], [4, 1, 4, 1]]
    stats = bench.core.stats()
    assert (stats.num_prefix_query_tokens, stats.num_prefix_hit_tokens) == (
        200,
        96,
    )  # without the second prompt
