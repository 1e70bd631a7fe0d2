"""`service.engine.link.report_pacer`: what leaves at once, and what leaves together."""

from service.engine.interface.messages import Done, Report
from service.engine.link.report_pacer import ReportPacer

BEGAN = 0.0


class Bench:
    """A pace of 20 ms with a clock that is set by hand, and a core that reports the steps since it was asked last."""

    def __init__(self, interval_s: float = 0.02) -> None:
        self.now = BEGAN
        self.steps: list[int] = []
        self.reported: list[list[int]] = []
        self.num_streams = 1
        self.pace = ReportPacer(self._report, self._emit, interval_s, lambda: self.now)

    def step(self, ms: int, *, is_urgent: bool = False) -> None:
        """A step that ended so many milliseconds after the start."""
        self.now = BEGAN + ms / 1000
        self.steps.append(ms)
        self.pace.step_done(is_urgent=is_urgent)

    def before_step(self, ms: int, *, step_ms: int) -> None:
        """A step begins so many milliseconds after the start, and is expected to take as long as that."""
        self.now = BEGAN + ms / 1000
        self.pace.before_step(step_ms / 1000)

    def _report(self, *, only_urgent: bool = False) -> Report:
        if only_urgent:
            return Report(started=[self.steps.pop()])
        steps, self.steps = self.steps, []
        return Report(started=steps, outputs=[(serial, Done()) for serial in range(self.num_streams)])

    def _emit(self, report: Report) -> None:
        assert report.heartbeat is not None
        self.reported.append(report.started)


def test_short_steps_are_told_together() -> None:
    bench = Bench()
    for ms in (5, 10, 15):
        bench.step(ms)
    assert bench.reported == []
    bench.step(20)
    assert bench.reported == [[5, 10, 15, 20]]


def test_steps_that_are_longer_are_told_by_themselves() -> None:
    bench = Bench()
    for ms in (25, 50, 75):
        bench.step(ms)
    assert bench.reported == [[25], [50], [75]]


def test_an_interval_of_zero_keeps_nothing() -> None:
    bench = Bench(0)
    for ms in (1, 2, 3):
        bench.step(ms)
    assert bench.reported == [[1], [2], [3]]


def test_what_somebody_waits_for_leaves_at_once_and_by_itself() -> None:
    bench = Bench()
    bench.step(5)
    bench.step(6, is_urgent=True)
    assert bench.reported == [[6]]
    bench.step(19)
    assert bench.reported == [[6]], "what was kept did not keep its time"
    bench.step(20)
    assert bench.reported == [[6], [5, 19, 20]]


def test_what_is_kept_leaves_before_a_long_step() -> None:
    """Else it would wait for the prompts of others."""
    bench = Bench()
    bench.step(12)
    bench.before_step(12, step_ms=14)
    bench.step(26)
    assert bench.reported == [[12]]
    bench.step(33)
    assert bench.reported == [[12], [26, 33]]


def test_what_is_kept_stays_before_a_step_that_ends_in_time_or_comes_soon() -> None:
    """Each telling costs all processes on its way, so that it isn't told twice as often."""
    bench = Bench()
    bench.step(12)
    bench.before_step(12, step_ms=12)
    bench.step(24)
    assert bench.reported == [[12, 24]]
    bench.step(33)
    bench.before_step(33, step_ms=40)
    bench.step(73)
    assert bench.reported == [[12, 24], [33, 73]]
    bench.before_step(120, step_ms=40)
    assert bench.reported == [[12, 24], [33, 73]], "there was nothing to tell"


def test_a_burst_of_long_steps_is_told_early_every_other_time() -> None:
    """Or telling would take from the prompts, step by step, what they need."""
    bench = Bench()
    for ms in (14, 28, 42, 56):
        bench.step(ms)
        bench.before_step(ms, step_ms=14)
    assert bench.reported == [[14], [28, 42], [56]]


def test_a_flush_tells_what_is_kept_and_begins_a_new_interval() -> None:
    bench = Bench()
    bench.step(15)
    bench.pace.flush()
    bench.step(30)
    assert bench.reported == [[15]]
    bench.step(36)
    assert bench.reported == [[15], [30, 36]]


def test_many_streams_are_told_less_often() -> None:
    bench = Bench()
    bench.num_streams = 64
    for ms in (20, 40, 59, 61, 80, 102):
        bench.step(ms)
    assert bench.reported == [[20], [40, 59, 61], [80, 102]]
    bench.num_streams = 32
    for ms in (143, 159, 164):
        bench.step(ms)
    assert bench.reported[3:] == [[143], [159, 164]]


def test_no_number_of_streams_makes_a_reader_wait_for_more_than_a_tenth_of_a_second() -> None:
    bench = Bench()
    bench.num_streams = 10_000
    for ms in (20, 119, 121):
        bench.step(ms)
    assert bench.reported == [[20], [119, 121]]


def test_an_interval_of_zero_keeps_nothing_of_many_streams() -> None:
    bench = Bench(0)
    bench.num_streams = 1_000
    for ms in (1, 2):
        bench.step(ms)
    assert bench.reported == [[1], [2]]


def test_a_longer_interval_stays_as_it_is_set() -> None:
    bench = Bench(0.5)
    bench.num_streams = 64
    for ms in (400, 500, 900, 1000):
        bench.step(ms)
    assert bench.reported == [[400, 500], [900, 1000]]
