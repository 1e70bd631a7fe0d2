"""EngineCore: the outputs and errors of successive steps."""

from __future__ import annotations

import pytest

from service.engine.core.engine_core import SampledToken
from service.engine.core.sequences.choice_seed import choice_seed
from service.engine.core.step import Step
from service.generation.errors import DeadlineExceeded, SequenceError
from service.generation.outputs.output import FinishReason, GenerationOutput
from tests.engine.fakes import Bench, Clock, config_of, request
from tests.engine.paged_runner import PagedRunner, say, sums


def test_core_reports_each_token_and_then_the_end() -> None:
    """Each step's output has the step's token, the last one has the finish reason, and then all blocks are free."""
    bench = Bench(rule=say("hi"))
    bench.add(request("hello"))
    bench.run()
    assert [(output.text, output.finish_reason) for output in bench.outputs[0, 0]] == [
        ("h", None),
        ("i", None),
        ("", FinishReason.END_OF_TEXT),
    ]
    bench.assert_idle()


def test_core_reports_a_request_s_first_step_once() -> None:
    """A request starts once, regardless of its number of prefill chunks and choices."""
    bench = Bench(config_of(max_batch_tokens=4, max_batch_sequences=4))
    bench.add(request("0123456789", n=2, max_tokens=3))
    bench.run()
    assert bench.started == [0]


def test_core_measures_the_times_of_a_choice() -> None:
    """Queueing ends with the first step, prefill with the first token, and decoding with the last token."""
    bench = Bench(config_of(max_batch_tokens=4, max_batch_sequences=1))
    bench.add(request("0123456789", max_tokens=3))
    bench.clock.now = 101.0
    while bench.core.has_work:
        bench.step()
        bench.clock.now += 1
    timings = bench.outputs[0, 0][-1].timings
    assert (timings.arrived, timings.scheduled, timings.first_token, timings.finished) == (100, 101, 103, 105)
    assert [output.token_times for output in bench.outputs[0, 0]] == [(103,), (104,), (105,)]


def test_core_reports_the_batch_size_of_each_token() -> None:
    """A prefill in the same step counts as a sequence like a decode."""
    bench = Bench(config_of(max_prefill_chunk=2))
    bench.add(request("a", max_tokens=4))
    bench.step()
    bench.add(request("bbb", max_tokens=1))
    bench.run()
    assert [output.batch_size for output in bench.outputs[0, 0]] == [1, 2, 2, 1]
    assert [output.batch_size for output in bench.outputs[1, 0]] == [2]


@pytest.mark.parametrize("num_steps", [0, 1, 3])
def test_core_abort_frees_everything_at_once(num_steps: int) -> None:
    """A request that is aborted before its first step, during prefill or during decode leaves nothing behind."""
    bench = Bench(config_of(max_batch_tokens=8, max_batch_sequences=4))
    group = bench.add(request("0123456789", n=2))
    for _ in range(num_steps):
        bench.step()
    bench.core.abort(group.serial)
    bench.core.abort(group.serial)
    bench.assert_idle()
    bench.run()
    assert bench.errors == {}


def test_core_abort_does_not_affect_others() -> None:
    """A request that runs with an aborted one generates the same tokens as without it."""
    bench = Bench()
    group, _ = bench.add(request("aaaabbbb")), bench.add(request("aaaabbbbcc"))
    bench.step()
    bench.core.abort(group.serial)
    bench.run()
    assert bench.tokens(1) == sums(b"aaaabbbbcc", 8, 0)
    bench.assert_idle()


def test_core_never_runs_a_request_after_its_deadline() -> None:
    """A request whose deadline passes while it is queued ends with DeadlineExceeded and is not computed."""
    bench = Bench()
    bench.add(request("hello", deadline=101.0))
    bench.clock.now = 101.0
    bench.run()
    assert [type(error) for error in bench.errors[0]] == [DeadlineExceeded]
    assert bench.runner.steps == []
    bench.assert_idle()


def test_core_stops_a_running_request_at_its_deadline() -> None:
    """A running request ends within a step of its deadline, with all choices and after its output so far."""
    bench = Bench(config_of(max_model_len=1000, num_blocks=500))
    bench.add(request("hello", deadline=105.0, max_tokens=None, n=2))
    while bench.core.has_work:
        bench.step()
        bench.clock.now += 1
    assert len(bench.tokens(0, 0)) == 5
    assert len(bench.tokens(0, 1)) == 4
    assert [type(error) for error in bench.errors[0]] == [DeadlineExceeded]
    bench.assert_idle()


class SlowRunner(PagedRunner):
    """Takes a fixed number of seconds per token."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        super().__init__()
        self._clock, self._seconds = clock, seconds

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        self._clock.now += self._seconds * step.num_tokens
        return super().run(step)


def test_core_releases_the_runner_s_state_of_a_preempted_sequence() -> None:
    """The runner drops its state of a preempted sequence, and builds it again when the sequence runs again."""
    bench = Bench(config_of(num_blocks=6, max_model_len=24))
    bench.add(request("a" * 7, max_tokens=16))
    group = bench.add(request("b" * 7, max_tokens=10))
    while not bench.core.stats().num_preemptions:
        bench.step()
    sequence = group.sequences[0]
    assert sequence not in bench.runner.kept
    assert (sequence.num_computed_tokens, len(sequence.block_table)) == (0, 0)
    bench.run()
    bench.assert_idle()


def test_core_choices_are_requests_with_derived_seeds() -> None:
    """Choice i of a request generates the same tokens as a request with the i-th derived seed."""
    bench = Bench()
    bench.add(request("hello", n=3, seed=7))
    for index in range(3):
        bench.add(request("hello", seed=choice_seed(7, index)))
    bench.run()
    for index in range(3):
        assert bench.tokens(0, index) == bench.tokens(1 + index)


def test_core_counts_steps_tokens_and_blocks() -> None:
    """The stats count the computed and generated tokens, the steps and the blocks."""
    bench = Bench()
    bench.add(request("hello", max_tokens=4))
    bench.step()
    stats = bench.core.stats()
    assert (stats.num_steps, stats.step_tokens, stats.num_computed_tokens) == (1, 5, 5)
    assert (stats.num_running, stats.num_free_blocks) == (1, 62)
    bench.run()
    stats = bench.core.stats()
    assert (stats.num_steps, stats.step_tokens, stats.num_computed_tokens) == (4, 1, 8)
    assert (stats.num_generated_tokens, stats.num_free_blocks, stats.num_cached_blocks) == (4, 64, 2)


def test_core_reports_urgent_output_without_other_tokens() -> None:
    """An urgent report has first tokens and ends only.

    Later tokens of other sequences are reported once, with the next full report.
    """
    bench = Bench(config_of(max_batch_sequences=4))
    bench.add(request("a", max_tokens=4))
    bench.step()
    bench.core.step()
    assert not bench.core.report(only_urgent=True).outputs, "a second token is not urgent"
    bench.add(request("b", max_tokens=2))
    bench.core.step()
    assert [serial for serial, _ in bench.core.report(only_urgent=True).outputs] == [1], "the first token of b"
    bench.core.step()
    ends = bench.core.report(only_urgent=True).outputs
    assert sorted(serial for serial, _ in ends) == [0, 1], "both end"
    outputs = {serial: output for serial, output in ends if isinstance(output, GenerationOutput)}
    assert [len(outputs[serial].token_ids) for serial in (0, 1)] == [3, 1]
    assert not bench.core.report().outputs, "all output was reported"
    bench.assert_idle()


def test_core_announces_the_expected_duration_of_a_prefill() -> None:
    """Before a step with prompt tokens, the core passes the expected duration to a callback.

    The callback can report pending output first. Other steps are short and have no callback.
    """
    clock = Clock()
    bench = Bench(config_of(max_batch_sequences=4), clock=clock, runner=SlowRunner(clock, 0.001))
    expected_s: list[float] = []
    reported: list[list[int]] = []

    def before(step_s: float) -> None:
        expected_s.append(step_s)
        reported.append([serial for serial, _ in bench.core.report().outputs])

    bench.add(request("abcdefgh", max_tokens=9))
    bench.core.step(before)
    bench.core.step(before)
    bench.add(request("ijklmnopqrstuvwx", max_tokens=2))
    bench.core.step(before)
    assert expected_s == [0, pytest.approx(0.017)], "one decode and sixteen tokens of 1 ms"
    assert reported == [[], [0]]
    bench.run()
    bench.assert_idle()


def test_core_reports_a_first_token_and_an_end_together_once() -> None:
    """A report after several steps has one output with all tokens."""
    bench = Bench()
    bench.add(request("a", max_tokens=2))
    bench.core.step()
    bench.core.step()
    ((_, output),) = bench.core.report(only_urgent=True).outputs
    assert isinstance(output, GenerationOutput)
    assert len(output.token_ids) == 2
    bench.assert_idle()
