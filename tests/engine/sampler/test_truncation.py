"""Requests that are truncated at their deadline instead of failing."""

from __future__ import annotations

from service.generation.outputs.output import FinishReason
from tests.engine.fakes import Bench, config_of, request
from tests.engine.paged_runner import say


def test_running_request_is_cut_off_at_its_deadline() -> None:
    """Every choice keeps its text and ends with LENGTH; there is no error."""
    bench = Bench(config_of(max_model_len=1000, num_blocks=500))
    bench.add(request("hello", deadline=105.0, max_tokens=None, n=2, truncates_at_deadline=True))
    while bench.core.has_work:
        bench.step()
        bench.clock.now += 1
    assert len(bench.tokens(0, 0)) == 5
    assert len(bench.tokens(0, 1)) == 4
    for index in range(2):
        *before, last = bench.outputs[0, index]
        assert not any(output.finish_reason for output in before)
        assert (last.finish_reason, last.timings.finished) == (FinishReason.LENGTH, 105.0)
    assert not bench.errors
    bench.assert_idle()


def test_cut_off_choice_gets_the_text_that_was_held_back() -> None:
    """Text that could have become a stop string is returned."""
    bench = Bench(config_of(max_model_len=1000, num_blocks=500), say("abc", end=False))
    bench.add(request("hello", deadline=102.0, max_tokens=None, stop=["bca!"], truncates_at_deadline=True))
    while bench.core.has_work:
        bench.step()
        bench.clock.now += 1
    assert "".join(output.text for output in bench.outputs[0, 0]) == "ab"


def test_finished_choice_is_not_cut_off_again() -> None:
    """A choice that ended before the deadline keeps its finish reason and gets no second one."""
    bench = Bench(config_of(max_model_len=1000, num_blocks=500), say("a", "endless " * 20))
    bench.add(request("hello", deadline=105.0, max_tokens=None, n=2, truncates_at_deadline=True))
    while bench.core.has_work:
        bench.step()
        bench.clock.now += 1
    reasons = [[output.finish_reason for output in bench.outputs[0, index]] for index in range(2)]
    assert reasons[0] == [None, FinishReason.END_OF_TEXT]
    assert [reason for reason in reasons[1] if reason] == [FinishReason.LENGTH]
    bench.assert_idle()


def test_request_that_waits_is_cut_off_with_nothing() -> None:
    """A request that was admitted but not started in time is never computed; its answer is empty."""
    bench = Bench()
    bench.add(request("hello", deadline=101.0, truncates_at_deadline=True))
    bench.clock.now = 101.0
    bench.run()
    (only,) = bench.outputs[0, 0]
    assert (only.token_ids, only.text, only.finish_reason) == ((), "", FinishReason.LENGTH)
    assert bench.runner.steps == []
    bench.assert_idle()
