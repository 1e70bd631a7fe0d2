"""Requests of batches by a simulated clock: they take the time that other requests leave, and no more."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from service.engine.core.batch import Int32s
from service.engine.core.sequences.sequence import SequenceGroup
from service.engine.core.step import Step
from tests.engine.core.test_pace import PacedRunner, paced_bench
from tests.engine.fakes import Bench, Clock, config_of, request
from tests.engine.paged_runner import sums

PROMPT = 800  # characters of other requests, each a token
SECONDS = 30.0


class Arrivals:
    """Requests that are not of batches, at random instants with a mean rate."""

    def __init__(self, bench: Bench, per_second: float) -> None:
        self._draw = random.Random(3)
        self._bench = bench
        self._per_second = per_second
        self._next = bench.clock.now
        self.groups: list[SequenceGroup] = []

    def go_on(self) -> None:
        """Add the requests that have arrived until now, dated by their arrival."""
        while self._next <= self._bench.clock.now:
            text = f"{len(self.groups):6}".ljust(PROMPT, ".")
            self.groups.append(self._bench.add(request(text, caller_id="person", max_tokens=10, ignore_eos=True)))
            self.groups[-1].arrived = self._next
            self._next += self._draw.expovariate(self._per_second)

    @property
    def next(self) -> float:
        """The instant of the next arrival."""
        return self._next

    def p95_s(self) -> float:
        """Return the 95th percentile of the times to the first token."""
        firsts = (group.sequences[0] for group in self.groups)
        times = sorted(each.first_token - each.group.arrived for each in firsts if each.first_token is not None)
        return times[int(0.95 * len(times))]


class Batches:
    """A batch that always has 32 requests in the engine."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._open: list[SequenceGroup] = []
        self._texts = map(str, iter(range(10**6)))
        self.num_tokens = 0
        self.go_on()

    def go_on(self) -> None:
        """Replace those that are complete."""
        ended = [group for group in self._open if group.is_finished]
        self._open = [group for group in self._open if not group.is_finished]
        self.num_tokens += sum(len(group.sequences[0].token_ids) for group in ended)
        while len(self._open) < 32:
            text = next(self._texts).ljust(40, "_")
            self._open.append(
                self._bench.add(request(text, caller_id="person", max_tokens=40, ignore_eos=True, is_batch=True))
            )

    def num_computed(self) -> int:
        """Return the number of tokens that were computed so far."""
        return self.num_tokens + sum(group.sequences[0].num_computed_tokens for group in self._open)


def busy_s(bench: Bench, *loads: Arrivals | Batches) -> float:
    """Step for SECONDS of the simulated clock, and return the time of the steps."""
    end, busy = bench.clock.now + SECONDS, 0.0
    while bench.clock.now < end:
        for load in loads:
            load.go_on()
        began = bench.clock.now
        if bench.core.has_work:
            bench.step()
        else:
            bench.clock.now = min(load.next for load in loads if isinstance(load, Arrivals))
            continue
        busy += bench.clock.now - began
    return busy


@pytest.mark.slow
def test_batch_takes_the_idle_time_and_delays_no_other() -> None:
    """The p95 of first tokens is at most 1.1 times that without a batch, which takes 0.9 of the idle capacity."""
    bench = paced_bench()
    alone = Arrivals(bench, 0.7)
    idle = 1 - busy_s(bench, alone) / SECONDS
    bench = paced_bench()
    whole = Batches(bench)
    busy_s(bench, whole)
    bench = paced_bench()
    people, rest = Arrivals(bench, 0.7), Batches(bench)
    busy_s(bench, people, rest)
    assert len(people.groups) == len(alone.groups)
    assert people.p95_s() <= 1.1 * alone.p95_s()
    assert rest.num_computed() >= 0.9 * idle * whole.num_computed()


def test_no_step_with_a_waiting_request_computes_a_batch() -> None:
    """From its arrival to its first token, a request has the steps for itself."""
    bench = paced_bench(max_batch_tokens=64)
    batch = [bench.add(request(f"{n:8}", max_tokens=50, ignore_eos=True, is_batch=True)) for n in range(8)]
    for _ in range(5):
        bench.step()
    person = bench.add(request("x" * 200, max_tokens=5, ignore_eos=True))
    before = [group.sequences[0].num_computed_tokens for group in batch]
    num_steps = 0
    while person.sequences[0].first_token is None:
        bench.step()
        num_steps += 1
        assert [group.sequences[0].num_computed_tokens for group in batch] == before
    assert num_steps >= 4
    bench.run()
    bench.assert_idle()


def test_requests_take_the_slots_and_blocks_of_batches() -> None:
    """Batches that hold all slots or blocks are preempted, and have the same tokens in the end."""
    bench = paced_bench(max_batch_sequences=4, num_blocks=40, max_model_len=100)
    texts = [f"batch {n:2}" for n in range(6)]
    for text in texts:
        bench.add(request(text, max_tokens=60, ignore_eos=True, is_batch=True))
    for _ in range(30):
        bench.step()
    people = [bench.add(request(f"hello {n}", max_tokens=20, ignore_eos=True)) for n in range(4)]
    while not all(group.is_finished for group in people):
        bench.step()
    assert bench.core.stats().num_preemptions > 0
    bench.run()
    for serial, text in enumerate(texts):
        assert bench.tokens(serial) == sums(text.encode(), 60, 0)
    bench.assert_idle()


class EndingRunner(PacedRunner):
    """A PacedRunner whose steps of batches end at the instant of the next arrival."""

    next_arrival = math.inf
    num_ended = 0

    def watch_arrivals(self, arrivals: Int32s) -> bool:
        return True

    def run(self, step: Step) -> Any:
        began = self.clock.now
        results = super().run(step)
        if not step.may_end_early or self.clock.now < self.next_arrival:
            return results
        self.clock.now = max(began, self.next_arrival)
        self.num_ended += 1
        return None


@pytest.mark.slow
def test_steps_that_end_at_an_arrival_are_long_and_delay_nobody() -> None:
    """With them a batch computes more in the same time; what a step had computed when it ended is repeated."""
    computed, p95 = [], []
    for ends in (False, True):
        clock = Clock()
        runner = EndingRunner(clock)
        bench = Bench(
            config_of(num_blocks=4000, max_model_len=1000, max_batch_sequences=64), runner=runner, clock=clock
        )
        if ends:
            bench.core.watch_arrivals(np.zeros(2, np.int32))
        people, rest = Arrivals(bench, 0.7), Batches(bench)
        end = clock.now + SECONDS / 2
        while clock.now < end:
            people.go_on()
            rest.go_on()
            runner.next_arrival = people.next if ends else math.inf
            bench.step()
        assert (runner.num_ended > 0) == ends
        computed.append(rest.num_computed())
        p95.append(people.p95_s())
    assert computed[1] > computed[0]
    assert p95[1] <= p95[0]
    runner.next_arrival = math.inf
    bench.run()
    for serial, group in bench.groups.items():
        text = bytes(group.sequences[0].token_ids[: group.sequences[0].num_prompt_tokens])
        assert bench.tokens(serial) == sums(text, len(bench.tokens(serial)), 0)
    bench.assert_idle()


def test_batches_never_preempt_others() -> None:
    """A batch waits for a slot while other requests hold all, and preempts none of them."""
    bench = paced_bench(max_batch_sequences=2)
    people = [bench.add(request(f"hello {n}", max_tokens=30, ignore_eos=True)) for n in range(3)]
    bench.step()
    batch = bench.add(request("batch", max_tokens=3, ignore_eos=True, is_batch=True))
    while not all(group.is_finished for group in people):
        bench.step()
        assert batch.sequences[0].scheduled is None or sum(group.is_finished for group in people) >= 2
    assert bench.core.stats().num_preemptions == 0
    bench.run()
    bench.assert_idle()
