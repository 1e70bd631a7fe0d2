"""The runner with a backend and a sampler that are not torch's: the interface has all data that they need."""

from __future__ import annotations

import gc
import weakref
from itertools import accumulate

import pytest

from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.engine_core import EngineCore
from service.engine.core.scheduler import Scheduler
from service.engine.runner.model_runner import ModelRunner
from service.generation.requests.parameters import LogprobsOptions
from tests.engine.block_backend import BlockBackend, SumSampler
from tests.engine.driving import drive
from tests.engine.fakes import config_of, group_of, request
from tests.engine.paged_runner import BLOCK_SIZE, sums

PROMPTS = ["a" * 30, "bc", "d" * 17, "efgh"]


def core_of(backend: BlockBackend, sampler: SumSampler, num_blocks: int = 64, **sizes: int) -> EngineCore:
    runner = ModelRunner(backend, sampler, num_blocks, BLOCK_SIZE, num_threads=3)
    config = config_of(num_blocks=num_blocks, **sizes)
    return EngineCore(Scheduler(config, BlockPool(num_blocks, BLOCK_SIZE)), runner)


@pytest.mark.parametrize(
    ("sizes", "min_preemptions"),
    [({}, 0), ({"max_batch_tokens": 8, "max_batch_sequences": 4}, 0), ({"num_blocks": 16}, 1)],
    ids=["whole", "chunked", "preempted"],
)
def test_arrays_say_all_that_a_backend_needs(sizes: dict[str, int], min_preemptions: int) -> None:
    """A backend that reads tokens back from its blocks sees each sequence's own tokens for every chunking."""
    backend, sampler = BlockBackend(), SumSampler()
    core = core_of(backend, sampler, **sizes)
    wanted = [group_of(request(prompt, max_tokens=20, seed=seed)) for seed, prompt in enumerate(PROMPTS)]
    outputs, errors = drive(core, wanted)
    assert errors == []
    for seed, (prompt, mine) in enumerate(zip(PROMPTS, outputs, strict=True)):
        assert [i for output in mine for i in output.token_ids] == sums(prompt.encode(), 20, seed)
    stats = core.stats()
    assert stats.num_preemptions >= min_preemptions
    assert sampler.num_sampled == 20 * len(PROMPTS)
    assert sampler.num_released == len(PROMPTS) + stats.num_preemptions
    assert backend.prepared == [3]  # by the thread that steps, once


@pytest.mark.parametrize("max_batch_tokens", [512, 7], ids=["whole", "pieces"])
def test_prompt_logprobs_are_collected_over_steps(max_batch_tokens: int) -> None:
    """The first output has the logprobs of all prompt tokens but the first, also if other requests want none."""
    core = core_of(BlockBackend(), SumSampler(), max_batch_tokens=max_batch_tokens, max_batch_sequences=4)
    prompt = list(b"some prompt of many tokens")
    asks = group_of(request(prompt, prompt_logprobs=LogprobsOptions(2), max_tokens=3))
    (first, *others), plain = drive(core, [asks, group_of(request("x" * 9, max_tokens=3))])[0]
    assert [each.token_id for each in first.prompt_logprobs] == prompt[1:]
    assert [each.logprob for each in first.prompt_logprobs] == [-total for total in accumulate(prompt[:-1])]
    assert {len(each.top) for each in first.prompt_logprobs} == {2}
    assert not any(output.prompt_logprobs for output in (*others, *plain))


@pytest.mark.slow
def test_runner_keeps_nothing_of_a_request_that_left() -> None:
    """Logprobs collected of an incomplete prompt are dropped too."""
    core = core_of(BlockBackend(), SumSampler(), max_batch_tokens=8, max_batch_sequences=4)
    group = group_of(request("some prompt of many tokens", prompt_logprobs=LogprobsOptions()))
    core.add(group)
    core.step()
    core.abort(group.serial)
    core.step()
    left = weakref.ref(group.sequences[0])
    del group
    gc.collect()
    assert left() is None
