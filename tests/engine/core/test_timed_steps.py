"""The scheduler by a simulated clock: prefill with decodes, and deadlines.

The runner decides how long its steps take.
"""

from __future__ import annotations

import statistics
from itertools import pairwise

import pytest

from service.engine.core.engine_core import SampledToken
from service.engine.core.step import Step
from service.generation.errors import DeadlineExceeded, SequenceError
from tests.engine.fakes import Bench, Clock, config_of, request
from tests.engine.paged_runner import PagedRunner

STEP_S = 0.010
TOKEN_S = 0.001


class TimedRunner(PagedRunner):
    """Takes 10 ms per step, and 1 ms per prompt token."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        num_prompt_tokens = sum(item.num_new_tokens for item in step.items if item.num_new_tokens > 1)
        self.clock.now += STEP_S + num_prompt_tokens * TOKEN_S
        return super().run(step)


def timed_bench(**sizes: object) -> Bench:
    """Return a bench whose steps take time, with capacity for a prompt of 4,000 tokens and some answers."""
    clock = Clock()
    config = config_of(**{"num_blocks": 1400, "max_model_len": 5000, **sizes})
    return Bench(config, runner=TimedRunner(clock), clock=clock)


@pytest.mark.slow
def test_a_long_prompt_slows_decodes_down_within_the_limit() -> None:
    """Gaps between tokens grow by at most 0.1 s during a burst.

    After it, 95 % of them are at most 3 times as long as alone.
    """
    bench = timed_bench(max_slowdown=2.5)
    bench.add(request("a" * 300, max_tokens=400, ignore_eos=True))
    for _ in range(5):
        bench.step()
    bench.add(request("b" * 4000, max_tokens=1))
    while (1, 0) not in bench.outputs:
        bench.step()
    times = [instant for output in bench.outputs[0, 0][5:] for instant in output.token_times]
    gaps = [after - before for before, after in pairwise(times)]
    assert max(gaps) == pytest.approx(STEP_S + 96 * TOKEN_S)
    steady = gaps[24:]
    assert 2 * STEP_S < statistics.mean(steady) <= 2.5 * STEP_S
    assert statistics.quantiles(steady, n=20)[-1] <= 3 * STEP_S
    bench.run()
    bench.assert_idle()


def test_a_request_that_cannot_start_in_time_is_never_started() -> None:
    """A prompt of 0.8 s with 0.3 s left ends with DeadlineExceeded, and none of it is computed."""
    bench = timed_bench()
    bench.add(request("a" * 300, max_tokens=1))
    bench.run()
    bench.add(request("b" * 800, max_tokens=1, n=2, deadline=bench.clock.now + 0.3))
    bench.add(request("c" * 800, max_tokens=1, deadline=bench.clock.now + 3))
    bench.run()
    assert [type(error) for error in bench.errors[1]] == [DeadlineExceeded]
    assert bench.started == [0, 2]
    assert len(bench.tokens(2)) == 1
    bench.assert_idle()


def test_a_late_request_alone_in_the_engine_is_rejected() -> None:
    """A late request is rejected even if no other request runs."""
    bench = timed_bench()
    bench.add(request("a" * 300, max_tokens=1))
    bench.run()
    bench.add(request("b" * 800, deadline=bench.clock.now + 0.3))
    bench.run()
    assert [type(error) for error in bench.errors[1]] == [DeadlineExceeded]
    bench.assert_idle()


def test_a_cached_prompt_may_be_in_time_when_a_new_one_is_not() -> None:
    """Cached tokens do not count for the time that a prompt takes."""
    bench = timed_bench()
    bench.add(request("a" * 800, max_tokens=1))
    bench.run()
    bench.add(request("a" * 800, max_tokens=1, deadline=bench.clock.now + 0.1))
    bench.run()
    assert 1 not in bench.errors
    assert len(bench.tokens(1)) == 1


def test_a_preempted_request_runs_up_to_its_deadline() -> None:
    """A request that has started is not rejected for being slow."""
    bench = timed_bench(num_blocks=170, max_model_len=600, prefix_caching=False)
    bench.add(request("a" * 300, max_tokens=200, ignore_eos=True))
    bench.add(request("b" * 300, max_tokens=200, ignore_eos=True, deadline=bench.clock.now + 60))
    bench.run()
    assert bench.core.stats().num_preemptions > 0
    assert bench.errors == {}
    assert len(bench.tokens(1)) == 200


class CrowdedRunner(TimedRunner):
    """Takes 10 ms more for each further sequence of a step."""

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        self.clock.now += STEP_S * (len(step.items) - 1)
        return super().run(step)


@pytest.mark.slow
def test_the_number_of_running_sequences_keeps_steps_short() -> None:
    """If a step may take four times as long as alone, four of twenty sequences run at a time, and all complete."""
    clock = Clock()
    config = config_of(num_blocks=1400, max_model_len=5000, max_decode_slowdown=4.0)
    bench = Bench(config, runner=CrowdedRunner(clock), clock=clock)
    bench.add(request("alone", max_tokens=5, ignore_eos=True))
    bench.run()
    for index in range(20):
        bench.add(request(f"{index}", max_tokens=200, ignore_eos=True))
    while bench.core.has_work:
        bench.step()
    assert {len(step) for step in bench.runner.steps[200:2000]} <= {2, 3, 4, 5}
    assert all(len(bench.tokens(serial)) == 200 for serial in range(1, 21))
    bench.assert_idle()
