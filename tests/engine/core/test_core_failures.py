"""EngineCore: errors of one choice or request, and those that end the engine."""

from __future__ import annotations

import pytest

from service.engine.core.engine_core import SampledToken
from service.engine.core.step import Step
from service.generation.errors import ConstraintFailed, SequenceError
from tests.engine.fake_constraint import FakeConstraint
from tests.engine.fakes import Bench, request
from tests.engine.paged_runner import PagedRunner, sums


def test_core_fails_one_request_alone() -> None:
    """An error of one sequence ends its request with all choices, and no other request."""
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
    """If the first choice fails in a step, the second choice's token of the same step is not reported."""
    bench = Bench()
    bench.add(request("hello", n=2))
    bench.step()
    bench.runner.bad_sequences.add((0, 0))
    bench.run()
    assert (0, 1) not in bench.outputs
    assert [type(error) for error in bench.errors[0]] == [SequenceError]
    bench.assert_idle()


class RejectingConstraint(FakeConstraint):
    """A constraint that rejects every token."""

    def accept(self, token_id: int) -> None:
        raise ValueError("no")


def test_core_fails_a_request_whose_constraint_raises() -> None:
    """A constraint that raises an exception fails its own request only."""
    bench = Bench()
    bench.add(request("hello"), constraint=RejectingConstraint())
    bench.add(request("other"))
    bench.run()
    assert [type(error) for error in bench.errors[0]] == [ConstraintFailed]
    assert bench.tokens(1) == sums(b"other", 8, 0)
    bench.assert_idle()


def test_core_raises_the_exceptions_of_the_runner() -> None:
    """An exception of a whole step is raised and does not become the error of a request."""
    bench = Bench()
    bench.add(request("hello"))
    bench.runner.fail_with = MemoryError("out of memory")
    with pytest.raises(MemoryError):
        bench.step()


class FixedRunner(PagedRunner):
    """Return the same results for every step."""

    def __init__(self, results: list[SampledToken | SequenceError | None]) -> None:
        super().__init__()
        self.results = results

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        return self.results


@pytest.mark.parametrize(
    "results", [[], [None], [SampledToken(1), None]], ids=["too few", "no token where one is due", "too many"]
)
def test_core_raises_an_error_for_results_that_do_not_match_the_step(
    results: list[SampledToken | SequenceError | None],
) -> None:
    """A runner whose results do not match its step causes an error and not a wrong stream."""
    bench = Bench(runner=FixedRunner(results))
    bench.add(request("hello"))
    with pytest.raises((RuntimeError, ValueError)):
        bench.step()
