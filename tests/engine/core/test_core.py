"""EngineCore: one step after the other, and what each brings."""

from __future__ import annotations

from typing import Any

import pytest

from service.engine.core.engine_core import SampledToken
from service.engine.core.sequences.sequence import choice_seed
from service.engine.core.step import Step
from service.generation.errors import ConstraintFailed, DeadlineExceeded, SequenceError
from service.generation.output import FinishReason, GenerationOutput
from tests.engine.fakes import Bench, Clock, PagedRunner, config_of, request, say, sums


def test_core_reports_each_token_and_then_the_end() -> None:
    """Each step's output has the step's token; the last has the finish reason, and everything is free."""
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
    """A request starts once, however many pieces its prompt has and however many choices it wants."""
    bench = Bench(config_of(max_batch_tokens=4, max_batch_sequences=4))
    bench.add(request("0123456789", n=2, max_tokens=3))
    bench.run()
    assert bench.started == [0]


def test_core_measures_the_times_of_a_choice() -> None:
    """Queueing ends with the first step, prefill with the first token, decoding with the last."""
    bench = Bench(config_of(max_batch_tokens=4, max_batch_sequences=1))
    bench.add(request("0123456789", max_tokens=3))
    bench.clock.now = 101.0
    while bench.core.has_work:
        bench.step()
        bench.clock.now += 1
    timings = bench.outputs[0, 0][-1].timings
    assert (timings.arrived, timings.scheduled, timings.first_token, timings.finished) == (100, 101, 103, 105)
    assert [output.token_times for output in bench.outputs[0, 0]] == [(103,), (104,), (105,)]


def test_core_tells_how_many_sequences_a_token_s_step_had() -> None:
    """A prompt computed beside counts as well as an answer."""
    bench = Bench(config_of(max_prefill_chunk=2))
    bench.add(request("a", max_tokens=4))
    bench.step()
    bench.add(request("bbb", max_tokens=1))
    bench.run()
    assert [output.batch_size for output in bench.outputs[0, 0]] == [1, 2, 2, 1]
    assert [output.batch_size for output in bench.outputs[1, 0]] == [2]


@pytest.mark.parametrize("num_steps", [0, 1, 3])
def test_core_abort_frees_everything_at_once(num_steps: int) -> None:
    """A request given up before its first step, within its prompt or while it decodes leaves nothing behind."""
    bench = Bench(config_of(max_batch_tokens=8, max_batch_sequences=4))
    group = bench.add(request("0123456789", n=2))
    for _ in range(num_steps):
        bench.step()
    bench.core.abort(group.serial)
    bench.core.abort(group.serial)
    bench.assert_idle()
    bench.run()
    assert bench.errors == {}


def test_core_abort_leaves_others_alone() -> None:
    """The neighbour of an aborted request says what it would have said."""
    bench = Bench()
    group, _ = bench.add(request("aaaabbbb")), bench.add(request("aaaabbbbcc"))
    bench.step()
    bench.core.abort(group.serial)
    bench.run()
    assert bench.tokens(1) == sums(b"aaaabbbbcc", 8, 0)
    bench.assert_idle()


def test_core_never_runs_a_request_after_its_deadline() -> None:
    """A request that waited too long ends with DeadlineExceeded and is not computed."""
    bench = Bench()
    bench.add(request("hello", deadline=101.0))
    bench.clock.now = 101.0
    bench.run()
    assert [type(error) for error in bench.errors[0]] == [DeadlineExceeded]
    assert bench.runner.steps == []
    bench.assert_idle()


def test_core_stops_a_running_request_at_its_deadline() -> None:
    """A request ends within a step of its deadline, all choices together, with what it had said so far."""
    bench = Bench(config_of(max_model_len=1000, num_blocks=500))
    bench.add(request("hello", deadline=105.0, max_tokens=None, n=2))
    while bench.core.has_work:
        bench.step()
        bench.clock.now += 1
    assert len(bench.tokens(0, 0)) == 5
    assert len(bench.tokens(0, 1)) == 4
    assert [type(error) for error in bench.errors[0]] == [DeadlineExceeded]
    bench.assert_idle()


def test_core_fails_one_sequence_alone() -> None:
    """A sequence that can't go on ends its request with its error, its siblings too, and no other request."""
    bench = Bench()
    bench.add(request("hello", n=2))
    bench.add(request("other"))
    bench.step()
    bench.runner.bad_sequences.add((0, 1))
    bench.run()
    assert [type(error) for error in bench.errors[0]] == [SequenceError]
    assert bench.tokens(1) == sums(b"other", 8, 0)
    assert not any(output.finish_reason for output in bench.outputs[0, 0])
    bench.assert_idle()


def test_core_drops_a_sibling_s_result_of_the_step_that_failed() -> None:
    """When the first choice fails in a step, the second one's token of the same step is not reported."""
    bench = Bench()
    bench.add(request("hello", n=2))
    bench.step()
    bench.runner.bad_sequences.add((0, 0))
    bench.run()
    assert (0, 1) not in bench.outputs
    assert [type(error) for error in bench.errors[0]] == [SequenceError]
    bench.assert_idle()


class Refusing:
    """A constraint that takes nothing."""

    is_free = False

    def fill_mask(self, mask: Any) -> None: ...

    def accept(self, token_id: int) -> None:
        raise ValueError("no")

    def shortest(self) -> None: ...

    def replace_token(self, token_id: int, num_left: int) -> int:
        return token_id

    def is_finished(self) -> bool:
        return False

    def forced_tokens(self) -> list[int]:
        return []

    def fork(self) -> Refusing:
        return self


def test_core_fails_a_request_whose_constraint_raises() -> None:
    """A broken constraint is its request's affair."""
    bench = Bench()
    bench.add(request("hello"), constraint=Refusing())
    bench.add(request("other"))
    bench.run()
    assert [type(error) for error in bench.errors[0]] == [ConstraintFailed]
    assert bench.tokens(1) == sums(b"other", 8, 0)
    bench.assert_idle()


def test_core_passes_on_what_the_runner_raises() -> None:
    """A failure of the step itself is not any one request's."""
    bench = Bench()
    bench.add(request("hello"))
    bench.runner.fail_with = MemoryError("out of memory")
    with pytest.raises(MemoryError):
        bench.step()


class Answering(PagedRunner):
    """Answers the same, whatever the step."""

    def __init__(self, results: list[SampledToken | SequenceError | None]) -> None:
        super().__init__()
        self.results = results

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        return self.results


class SlowRunner(PagedRunner):
    """Each token takes some seconds."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        super().__init__()
        self._clock, self._seconds = clock, seconds

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        self._clock.now += self._seconds * step.num_tokens
        return super().run(step)


@pytest.mark.parametrize(
    "results", [[], [None], [SampledToken(1), None]], ids=["too few", "no token where one is due", "too many"]
)
def test_core_refuses_results_that_do_not_fit(results: list[SampledToken | SequenceError | None]) -> None:
    """A runner that answers another step than the one it was given is an error, not a wrong stream."""
    bench = Bench(runner=Answering(results))
    bench.add(request("hello"))
    with pytest.raises((RuntimeError, ValueError)):
        bench.step()


def test_core_lets_the_runner_forget_a_preempted_sequence() -> None:
    """What a runner keeps for a sequence is let go with its blocks, and built again when it runs again."""
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
    """Choice i of n says what a request of its own with the i-th derived seed says."""
    bench = Bench()
    bench.add(request("hello", n=3, seed=7))
    for index in range(3):
        bench.add(request("hello", seed=choice_seed(7, index)))
    bench.run()
    for index in range(3):
        assert bench.tokens(0, index) == bench.tokens(1 + index)


def test_core_counts_what_it_did() -> None:
    """The stats add up: computed, generated, steps, blocks."""
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


def test_core_tells_what_somebody_waits_for_without_the_others_tokens() -> None:
    """A first token and an end don't take along what may leave later, which is told once, and whole, in its time."""
    bench = Bench(config_of(max_batch_sequences=4))
    bench.add(request("a", max_tokens=4))
    bench.step()
    bench.core.step()
    assert not bench.core.report(only_urgent=True).outputs, "nobody waits for a second token"
    bench.add(request("b", max_tokens=2))
    bench.core.step()
    assert [serial for serial, _ in bench.core.report(only_urgent=True).outputs] == [1], "the first token of b"
    bench.core.step()
    ends = bench.core.report(only_urgent=True).outputs
    assert sorted(serial for serial, _ in ends) == [0, 1], "both end"
    told = {serial: output for serial, output in ends if isinstance(output, GenerationOutput)}
    assert [len(told[serial].token_ids) for serial in (0, 1)] == [3, 1]
    assert not bench.core.report().outputs, "all was told"
    bench.assert_idle()


def test_core_says_before_a_prompt_how_long_it_will_take_and_can_be_asked_then() -> None:
    """So that what others have doesn't wait for it. Steps without a prompt are short, and nobody is asked."""
    clock = Clock()
    bench = Bench(config_of(max_batch_sequences=4), clock=clock, runner=SlowRunner(clock, 0.001))
    said: list[float] = []
    told: list[list[int]] = []

    def before(step_s: float) -> None:
        said.append(step_s)
        told.append([serial for serial, _ in bench.core.report().outputs])

    bench.add(request("abcdefgh", max_tokens=9))
    bench.core.step(before)
    bench.core.step(before)
    bench.add(request("ijklmnopqrstuvwx", max_tokens=2))
    bench.core.step(before)
    assert said == [0, pytest.approx(0.017)], "one decode and sixteen tokens of 1 ms"
    assert told == [[], [0]]
    bench.run()
    bench.assert_idle()


def test_core_tells_a_first_token_and_an_end_together_once() -> None:
    """Whoever asks after several steps gets one output with all of it."""
    bench = Bench()
    bench.add(request("a", max_tokens=2))
    bench.core.step()
    bench.core.step()
    ((_, output),) = bench.core.report(only_urgent=True).outputs
    assert isinstance(output, GenerationOutput)
    assert len(output.token_ids) == 2
    bench.assert_idle()
