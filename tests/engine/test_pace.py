"""`service.engine.pace`: what leaves at once, and what leaves together."""

from collections.abc import Sequence

import pytest

from service.engine.mail import Done, Report
from service.engine.pace import Pace
from service.generation.errors import SequenceError
from service.generation.output import FinishReason, GenerationOutput, Timings
from service.generation.stats import EngineStats

BEGAN = 0.0


class Bench:
    """A pace of 20 ms with a clock that is set by hand."""

    def __init__(self, interval_s: float = 0.02) -> None:
        self.now = BEGAN
        self.told: list[Report] = []
        self.pace = Pace(self.told.append, interval_s, lambda: self.now)

    def put(self, ms: float, *outputs: tuple[int, GenerationOutput]) -> None:
        """Put the report of a step that ended so many milliseconds after the start."""
        self.now = BEGAN + ms / 1000
        self.pace.put(Report(outputs=list(outputs), heartbeat=self.now, stats=[EngineStats(num_steps=round(ms))]))


def token(
    serial: int, token_id: int, *, choice: int = 0, is_first: bool = False, finish: FinishReason | None = None
) -> tuple[int, GenerationOutput]:
    """What a step added to a choice: one token, whose text is its number."""
    timings = Timings(BEGAN, BEGAN, 7.0 if is_first else 1.0, None)
    return serial, GenerationOutput(
        choice, (token_id,), (7.0,), f"{token_id} ", timings, batch_size=1, text_ends=(2,), finish_reason=finish
    )


def texts(report: Report) -> list[tuple[int, int, str, Sequence[int]]]:
    """Serial, choice, text and tokens of each output."""
    return [
        (serial, output.choice_index, output.text, tuple(output.token_ids))
        for serial, output in report.outputs
        if isinstance(output, GenerationOutput)
    ]


def test_tokens_of_short_steps_leave_together() -> None:
    """One output a choice, in order, with the newest heartbeat and every step's stats."""
    bench = Bench()
    for ms in (5, 10, 15):
        bench.put(ms, token(1, ms), token(2, ms, choice=3))
    assert bench.told == []
    bench.put(20, token(1, 20), token(2, 20, choice=3))
    (report,) = bench.told
    assert texts(report) == [(1, 0, "5 10 15 20 ", (5, 10, 15, 20)), (2, 3, "5 10 15 20 ", (5, 10, 15, 20))]
    assert [stats.num_steps for stats in report.stats] == [5, 10, 15, 20]
    assert report.heartbeat == BEGAN + 0.02


def test_steps_that_are_longer_leave_by_themselves() -> None:
    bench = Bench()
    for ms in (25, 50, 75):
        bench.put(ms, token(1, ms))
    assert [texts(report) for report in bench.told] == [[(1, 0, f"{ms} ", (ms,))] for ms in (25, 50, 75)]


def test_an_interval_of_zero_holds_nothing_back() -> None:
    bench = Bench(0)
    for ms in (1, 2, 3):
        bench.put(ms, token(1, ms))
    assert len(bench.told) == 3


@pytest.mark.parametrize(
    "urgent",
    [
        Report(started=[4]),
        Report(errors=[(4, SequenceError("it can't go on"))]),
        Report(outputs=[token(4, 1, is_first=True)]),
        Report(outputs=[token(4, 1, finish=FinishReason.LENGTH)]),
        Report(outputs=[(4, Done())]),
    ],
    ids=["start", "error", "first token", "last token", "errand"],
)
def test_what_somebody_waits_for_takes_along_what_was_held(urgent: Report) -> None:
    bench = Bench()
    bench.put(5, token(1, 5))
    bench.pace.put(urgent)
    (report,) = bench.told
    assert (report.started, report.errors) == (urgent.started, urgent.errors)
    assert (1, 0, "5 ", (5,)) in texts(report)
    assert len(report.outputs) == 1 + len(urgent.outputs)
    bench.pace.flush()
    assert len(bench.told) == 1, "it was told twice"


def test_a_flush_tells_what_is_held_and_begins_a_new_interval() -> None:
    bench = Bench()
    bench.put(15, token(1, 15))
    bench.pace.flush()
    bench.put(30, token(1, 30))
    assert len(bench.told) == 1
    bench.put(36, token(1, 36))
    assert texts(bench.told[1]) == [(1, 0, "30 36 ", (30, 36))]


def test_what_is_whole_is_merged_with_nothing() -> None:
    """A piece of a stream that goes on where it broke ends where it ended before."""
    bench = Bench()
    serial, output = token(1, 5)
    assert isinstance(output, GenerationOutput)
    bench.put(5, (serial, output._replace(is_whole=True)))
    bench.put(10, token(1, 10))
    bench.put(25, token(1, 25))
    assert texts(bench.told[0]) == [(1, 0, "5 ", (5,)), (1, 0, "10 25 ", (10, 25))]
