"""The memory of a worker's cache belongs to its parent: the next worker finds what the one before it has computed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from service.engine.client.generator import GeneratorClient
from service.engine.interface.config import EngineConfig
from service.engine.link.cache_file import CacheFile
from service.engine.link.engine_spec import EngineSpec
from service.engine.link.process_link import ProcessLink
from service.engine.link.restarts import Restarts
from service.generation.errors import EngineFailed
from service.generation.outputs.output import TokenLogprob
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.fakes import read, until
from tests.native.stepped_engine import DEMO_FOLDER

_KILLS = int(os.environ.get("WORKER_KILLS", "10"))
_PATIENT = Restarts(first_delay_s=0.01, max_delay_s=0.01, max_deaths=1_000_000)


def started(**sizes: Any) -> tuple[GeneratorClient, ProcessLink, CacheFile]:
    """Return an engine on the native backend in a process, with its link and the memory of its cache."""
    file = CacheFile()
    arguments = {
        "model": str(DEMO_FOLDER),
        "config": EngineConfig(backend="native", num_threads=1, num_blocks=256, max_queue_wait_s=600.0, **sizes),
        "compute_dtype": "float32",
        "device": "cpu",
        "cache_share": 1.0,
        "control_token_ids": {},
        "cache_file": file.path,
    }
    spec = EngineSpec("service.engine.loading.generator:load_generator", arguments)
    link = ProcessLink(spec, restarts=_PATIENT, cache_file=file)
    description = link.launch()
    return GeneratorClient(link, description.config, vocab_size=description.vocab_size), link, file


def request(seed: int, num_tokens: int = 30) -> GenerationRequest:
    token_ids = random.Random(seed % 5).choices(range(3, 400), k=100)
    stopping = StopParams(num_tokens, ignore_eos=True)
    return GenerationRequest(
        f"{seed}", token_ids, SamplingParams(temperature=1.0, seed=seed), stopping, logprobs=LogprobsOptions(1)
    )


async def answer(engine: GeneratorClient, wanted: GenerationRequest) -> tuple[list[TokenLogprob], int]:
    """Return the tokens' logprobs, and the number of prompt tokens that were found in the cache."""
    async with engine.generate(wanted) as outputs:
        found = await read(outputs)
    return [each for output in found for each in output.logprobs], found[-1].num_cached_tokens


def kill(link: ProcessLink) -> None:
    assert link.pid is not None
    os.kill(link.pid, signal.SIGKILL)


def num_blocks(file: CacheFile) -> int:
    """Return the number of 512 bytes that a file takes in memory."""
    return Path(file.path).stat().st_blocks


@pytest.mark.slow
@pytest.mark.parametrize("kv_cache_dtype", ["auto", "int8"])
async def test_the_next_worker_computes_no_known_prompt_again(kv_cache_dtype: str) -> None:
    """After a kill in mid-stream, the same request gets the same bits, and its whole blocks are found."""
    engine, link, _ = started(kv_cache_dtype=kv_cache_dtype)
    async with engine:
        expected, num_cached = await answer(engine, request(0))
        assert num_cached == 0
        for _ in range(2):
            async with engine.generate(request(0, 2000)) as stream:
                await anext(stream)
                killed = link.pid
                kill(link)
                with contextlib.suppress(EngineFailed):  # unless the whole answer was on its way before
                    await read(stream)
            await until(lambda killed=killed: link.pid not in {None, killed} and not engine.is_restarting)  # type: ignore[misc]
            assert await answer(engine, request(0)) == (expected, 96)
            assert engine.stats().num_adopted_blocks > 6
            await engine.check()


@pytest.mark.slow
async def test_a_sleeping_engine_has_no_memory() -> None:
    """Its cache is freed, and computed again after it was woken."""
    engine, link, file = started()
    async with engine:
        expected, _ = await answer(engine, request(0))
        assert num_blocks(file) > 0
        await engine.sleep(0)
        assert num_blocks(file) == 0
        await engine.wake()
        assert await answer(engine, request(0)) == (expected, 0)
        assert link.pid is not None


@pytest.mark.long
@pytest.mark.timeout(300 + 120 * _KILLS)
async def test_kills_at_random_instants_change_no_bit() -> None:
    """Workers are killed under 8 streams; each request that is answered has the bits of an undisturbed engine."""
    draw = random.Random(0)
    engine, link, _ = started()
    expected: dict[int, list[TokenLogprob]] = {}
    async with engine:
        for seed in range(20):
            expected[seed], _ = await answer(engine, request(seed))
        num_found = 0
        for _ in range(_KILLS):
            seeds = draw.choices(range(20), k=8)
            running = [asyncio.create_task(answer(engine, request(seed))) for seed in seeds]
            await asyncio.sleep(draw.random() * 0.3)
            killed = link.pid
            kill(link)
            for seed, result in zip(seeds, await asyncio.gather(*running, return_exceptions=True), strict=True):
                if not isinstance(result, EngineFailed):
                    assert not isinstance(result, BaseException)
                    assert result[0] == expected[seed]
            # The death may be noticed after all answers.
            await until(lambda killed=killed: link.pid not in {None, killed} and not engine.is_restarting)  # type: ignore[misc]
            again = await asyncio.gather(*(answer(engine, request(seed)) for seed in seeds))
            for seed, (found, num_cached) in zip(seeds, again, strict=True):
                assert found == expected[seed]
                num_found += num_cached
            await engine.check()
        assert num_found >= _KILLS * 8 * 90
