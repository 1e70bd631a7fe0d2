"""The cost of requests: their shares of the steps' time, and blocks times seconds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from service.engine.building.engines import build_engine
from service.engine.core.step import Step
from service.engine.interface.config import EngineConfig
from service.generation.outputs.output import Timings
from service.generation.requests.parameters import SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.fakes import Bench, Clock, config_of, read, request
from tests.engine.paged_runner import PagedRunner

DEMO = Path(__file__).parents[3] / "demo" / "model"


class TimedRunner(PagedRunner):
    """Takes a second per step, and a tenth of a second per token."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def run(self, step: Step) -> list[object]:  # type: ignore[override]  # the results are not inspected here
        self._clock.now += 1 + step.num_tokens / 10
        return list(super().run(step))


def timed(**sizes: object) -> Bench:
    """Return a bench whose steps take time by its clock."""
    clock = Clock()
    return Bench(config_of(**sizes), clock=clock, runner=TimedRunner(clock))


def last(bench: Bench, serial: int, choice_index: int = 0) -> Timings:
    """Return the timings in the last output of a choice."""
    return bench.outputs[serial, choice_index][-1].timings


def test_a_request_alone_costs_all_steps() -> None:
    """A prompt of five tokens takes 1.5 s, and two more tokens 1.1 s each.

    Two blocks of four tokens are held throughout.
    """
    bench = timed()
    bench.add(request("hello", max_tokens=3))
    bench.run()
    assert last(bench, 0).compute_s == pytest.approx(1.5 + 2 * 1.1)
    assert last(bench, 0).block_s == pytest.approx(2 * (1.5 + 2 * 1.1))


def test_a_step_is_divided_by_tokens() -> None:
    """A prompt of seven tokens pays seven eighths of a step with one decode."""
    bench = timed()
    bench.add(request("a", max_tokens=2))
    bench.step()
    bench.add(request("bcdefgh", max_tokens=1))
    bench.run()
    assert last(bench, 0).compute_s == pytest.approx(1.1 + 1.8 / 8)
    assert last(bench, 1).compute_s == pytest.approx(1.8 * 7 / 8)


def test_shares_sum_to_the_engine_s_busy_time() -> None:
    """This holds with several choices, preemption, chunked prefill and a cached prompt."""
    bench = timed(max_batch_tokens=16, num_blocks=12, max_batch_sequences=4)
    prompts = ["a long prompt of some tokens", "short", "a long prompt of others", "a long prompt of some tokens"]
    for number, prompt in enumerate(prompts):
        bench.add(request(prompt[:20], max_tokens=8 + number, n=1 + number % 2))
    bench.run()
    stats = bench.core.stats()
    assert stats.num_preemptions > 0
    assert stats.num_prefix_hit_tokens > 0
    total = sum(outputs[-1].timings.compute_s for outputs in bench.outputs.values())
    assert total == pytest.approx(stats.busy_s)


def test_a_preempted_sequence_pays_for_no_blocks() -> None:
    """A preempted sequence pays for the blocks that it held, but not for the time until it runs again."""
    bench = timed(num_blocks=6, prefix_caching=False)
    for _ in range(2):
        bench.add(request("abcdefgh", max_tokens=14))
    bench.run()
    assert bench.core.stats().num_preemptions > 0
    total = sum(last(bench, serial).block_s for serial in (0, 1))
    assert total <= 6 * bench.core.stats().busy_s


@pytest.mark.slow
@pytest.mark.parametrize("worker", ["thread", "process"])
async def test_shares_sum_to_the_busy_time_of_the_bundled_model(worker: Literal["thread", "process"]) -> None:
    """The costs of twelve concurrent answers sum to the busy time within one per cent."""
    built = build_engine(str(DEMO), EngineConfig(num_blocks=256, num_threads=1, worker=worker))

    async def cost(number: int) -> float:
        ids = built.tokenizer.encode(f"{number} is a number, " * (number + 1))
        sampling = SamplingParams(temperature=0)
        async with built.engine.generate(
            GenerationRequest(f"{number}", ids, sampling, StopParams(max_tokens=20))
        ) as all_:
            return (await read(all_))[-1].timings.compute_s

    async with built.engine as engine:
        costs = await asyncio.gather(*(cost(number) for number in range(12)))
        assert sum(costs) == pytest.approx(engine.stats().busy_s, rel=0.01)
        assert min(costs) > 0
