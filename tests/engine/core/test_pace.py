"""The pace of decodes by a simulated clock: small keys and service levels in company of other work."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from service.engine.core.engine_core import SampledToken
from service.engine.core.sequences.sequence import SequenceGroup
from service.engine.core.step import Step
from service.generation.errors import SequenceError
from service.generation.service_level import ServiceLevel
from tests.engine.fakes import Bench, Clock, config_of, request
from tests.engine.paged_runner import PagedRunner, sums

STEP_S = 0.010
ROW_S = 0.002
TOKEN_S = 0.0005


class PacedRunner(PagedRunner):
    """Takes 10 ms per step, 2 ms per decode, and 0.5 ms per prompt token."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        self.clock.now += STEP_S + step.num_decodes * ROW_S + step.num_prompt_tokens * TOKEN_S
        return super().run(step)


def paced_bench(**sizes: Any) -> Bench:
    """Return a bench whose steps take time, with capacity for 64 answers."""
    clock = Clock()
    config = config_of(**{"num_blocks": 4000, "max_model_len": 1000, "max_batch_sequences": 64, **sizes})
    return Bench(config, runner=PacedRunner(clock), clock=clock)


class ClosedLoop:
    """Callers of one key that each send a request as soon as their last one is complete."""

    def __init__(self, bench: Bench, caller_id: str, num_callers: int, **fields: Any) -> None:
        self.times: list[float] = []  # of whole answers
        self._bench = bench
        self._fields = {"caller_id": caller_id, "ignore_eos": True, **fields}
        self._open = [self._add() for _ in range(num_callers)]

    def _add(self) -> SequenceGroup:
        return self._bench.add(request(f"{len(self._bench.groups):6} of {self._fields['caller_id']}", **self._fields))

    def go_on(self) -> None:
        """Send a request for each one that is complete."""
        for index, group in enumerate(self._open):
            if group.is_finished:
                self.times.append(self._bench.clock.now - group.arrived)
                self._open[index] = self._add()


def run_for(bench: Bench, seconds: float, *loops: ClosedLoop) -> None:
    """Step for a number of seconds of the simulated clock."""
    until = bench.clock.now + seconds
    while bench.clock.now < until:
        bench.step()
        for loop in loops:
            loop.go_on()


def median(times: list[float]) -> float:
    return sorted(times)[len(times) // 2]


@pytest.mark.slow
@pytest.mark.parametrize("num_callers", [16, 48, 120])
def test_a_small_key_is_hardly_slower_during_a_flood(num_callers: int) -> None:
    """One caller's median stays within 1.5 times its time alone, and the flood continues in the meantime."""
    bench = paced_bench()
    alone = ClosedLoop(bench, "polite", 1, max_tokens=20)
    run_for(bench, 0.5, alone)
    unloaded_s = median(alone.times)
    bench.run()
    flood = ClosedLoop(bench, "flood", num_callers, max_tokens=20)
    run_for(bench, 2, flood)
    before = bench.core.stats().num_generated_tokens
    polite = ClosedLoop(bench, "polite", 1, max_tokens=20)
    run_for(bench, 6, flood, polite)
    assert median(polite.times) <= 1.5 * unloaded_s
    num_polite = 20 * len(polite.times)
    assert bench.core.stats().num_generated_tokens - before > 2 * num_polite


@pytest.mark.slow
def test_a_small_key_yields_after_it_was_served_more() -> None:
    """A flood gets its share of tokens from a key whose few requests are as much work as it is."""
    bench = paced_bench()
    flood = ClosedLoop(bench, "flood", 8, max_tokens=20)
    long = ClosedLoop(bench, "long", 1, max_tokens=900)
    run_for(bench, 12, flood, long)
    num_long = len(bench.tokens(8))
    num_flood = bench.core.stats().num_generated_tokens - num_long
    assert num_flood >= num_long


def test_answers_do_not_depend_on_the_pace() -> None:
    """Sequences that yield generate the same tokens as alone, and every block is free in the end."""
    bench = paced_bench(num_blocks=60, max_model_len=100)
    for index in range(12):
        bench.add(request(f"flood {index:2}", caller_id="flood", max_tokens=30, ignore_eos=True))
    for _ in range(3):
        bench.step()
    bench.add(request("hello", caller_id="polite", max_tokens=20, ignore_eos=True))
    level = ServiceLevel(1.0, 0.02)
    bench.add(request("promised", caller_id="flood", max_tokens=20, ignore_eos=True, service_level=level))
    bench.run()
    for serial in range(12):
        assert bench.tokens(serial) == sums(f"flood {serial:2}".encode(), 30, 0)
    assert bench.tokens(12) == sums(b"hello", 20, 0)
    assert bench.tokens(13) == sums(b"promised", 20, 0)
    bench.assert_idle()


def gaps_of(bench: Bench, serial: int) -> list[float]:
    times = [instant for output in bench.outputs[serial, 0] for instant in output.token_times]
    return [after - before for before, after in pairwise(times)]


@pytest.mark.slow
def test_batch_work_yields_to_a_service_level_of_the_same_key() -> None:
    """An answer with 20 ms per token keeps to it although a full step takes 74 ms; batch work uses the time left."""
    bench = paced_bench()
    bench.add(request("alone", max_tokens=5))
    bench.run()
    batch = [bench.add(request(f"batch {index}", max_tokens=200, ignore_eos=True)) for index in range(31)]
    for _ in range(10):
        bench.step()
    arrived = bench.clock.now
    level = ServiceLevel(0.1, 0.020)
    group = bench.add(request("promised", max_tokens=50, ignore_eos=True, service_level=level))
    before = bench.core.stats().num_generated_tokens
    while not group.is_finished:
        bench.step()
    times = bench.outputs[group.serial, 0][-1].timings
    assert times.first_token is not None
    assert times.finished is not None
    assert times.first_token - arrived <= 0.1
    assert (times.finished - times.first_token) / 49 <= 0.020
    assert bench.core.stats().num_generated_tokens - before - 50 >= 100
    bench.run()
    assert all(len(bench.tokens(each.serial)) == 200 for each in batch)


def test_a_loose_service_level_changes_no_step() -> None:
    """While every token is in time with all sequences in each step, all decode in each step."""
    bench = paced_bench()
    bench.add(request("alone", max_tokens=5))
    bench.run()
    for index in range(8):
        level = ServiceLevel(1.0, 0.1) if index % 2 else ServiceLevel()
        bench.add(request(f"{index}", max_tokens=30, ignore_eos=True, service_level=level))
    for _ in range(3):
        bench.step()
    while bench.core.has_work:
        bench.step()
        assert len(bench.runner.steps[-1]) == 8
    bench.assert_idle()


def test_a_service_level_starts_although_batch_work_holds_all_slots() -> None:
    """A request with a limit for its first token takes the slot of the key's newest batch work."""
    bench = paced_bench(max_batch_sequences=4)
    for index in range(8):
        bench.add(request(f"batch {index}", max_tokens=100, ignore_eos=True))
    for _ in range(5):
        bench.step()
    group = bench.add(request("promised", max_tokens=5, service_level=ServiceLevel(0.2, 0.05)))
    bench.step()
    assert bench.started[-1] == group.serial
    bench.run()
    assert bench.tokens(3) == sums(b"batch 3", 100, 0)
    assert bench.outputs[3, 0][-1].timings.num_preemptions == 1
    bench.assert_idle()


def test_a_service_level_that_was_missed_is_batch_work() -> None:
    """A request whose first token can't be in time delays no other one that still can."""
    bench = paced_bench(max_batch_sequences=2)
    bench.add(request("a" * 300, max_tokens=5))
    bench.run()
    missed = bench.add(request("b" * 600, max_tokens=5, service_level=ServiceLevel(0.05)))
    kept = bench.add(request("c" * 100, max_tokens=5, service_level=ServiceLevel(0.2)))
    bench.step()
    assert bench.runner.steps[-1][0] == (kept.serial, 100)
    bench.run()
    assert len(bench.tokens(missed.serial)) == 5


def test_a_flood_with_service_levels_leaves_others_their_share() -> None:
    """A key that was served more than another one loses its precedence, whatever its requests require."""
    bench = paced_bench()
    strict = ClosedLoop(bench, "strict", 16, max_tokens=20, service_level=ServiceLevel(0.5, 0.001))
    plain = ClosedLoop(bench, "plain", 16, max_tokens=20)
    run_for(bench, 10, strict, plain)
    assert len(plain.times) >= 0.8 * len(strict.times)
