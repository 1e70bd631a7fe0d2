"""ReportPacer: the output that is reported immediately, and the output that is collected."""

from service.engine.interface.messages import Done, Report
from service.engine.link.report_pacer import ReportPacer

BEGAN = 0.0


class Bench:
    """A pacer with an interval of 20 ms, a clock that the test sets, and a core that reports each step once."""

    def __init__(self, interval_s: float = 0.02) -> None:
        self.now = BEGAN
        self.steps: list[int] = []
        self.reported: list[list[int]] = []
        self.num_streams = 1
        self.pacer = ReportPacer(self._report, self._emit, interval_s, lambda: self.now)

    def step(self, ms: int, *, is_urgent: bool = False) -> None:
        """Run a step that ends `ms` milliseconds after the start."""
        self.now = BEGAN + ms / 1000
        self.steps.append(ms)
        self.pacer.step_done(is_urgent=is_urgent)

    def before_step(self, ms: int, *, step_ms: int) -> None:
        """Begin a step `ms` milliseconds after the start, which is expected to take `step_ms` milliseconds."""
        self.now = BEGAN + ms / 1000
        self.pacer.before_step(step_ms / 1000)

    def _report(self, *, only_urgent: bool = False) -> Report:
        if only_urgent:
            return Report(started=[self.steps.pop()])
        steps, self.steps = self.steps, []
        return Report(started=steps, outputs=[(serial, Done()) for serial in range(self.num_streams)])

    def _emit(self, report: Report) -> None:
        assert report.heartbeat is not None
        self.reported.append(report.started)


def test_short_steps_are_reported_together() -> None:
    bench = Bench()
    for ms in (5, 10, 15):
        bench.step(ms)
    assert bench.reported == []
    bench.step(20)
    assert bench.reported == [[5, 10, 15, 20]]


def test_long_steps_are_reported_separately() -> None:
    bench = Bench()
    for ms in (25, 50, 75):
        bench.step(ms)
    assert bench.reported == [[25], [50], [75]]


def test_an_interval_of_zero_holds_nothing_back() -> None:
    bench = Bench(0)
    for ms in (1, 2, 3):
        bench.step(ms)
    assert bench.reported == [[1], [2], [3]]


def test_urgent_output_is_reported_immediately_and_alone() -> None:
    bench = Bench()
    bench.step(5)
    bench.step(6, is_urgent=True)
    assert bench.reported == [[6]]
    bench.step(19)
    assert bench.reported == [[6]], "urgent output does not change the interval"
    bench.step(20)
    assert bench.reported == [[6], [5, 19, 20]]


def test_held_output_is_reported_before_a_long_step() -> None:
    """Otherwise it would be delayed by other requests' prompts."""
    bench = Bench()
    bench.step(12)
    bench.before_step(12, step_ms=14)
    bench.step(26)
    assert bench.reported == [[12]]
    bench.step(33)
    assert bench.reported == [[12], [26, 33]]


def test_held_output_stays_held_before_a_short_or_early_step() -> None:
    """Each report costs time in all processes on its path, so the number of reports must not double."""
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
    assert bench.reported == [[12, 24], [33, 73]], "no output was held"


def test_a_burst_of_long_steps_is_reported_early_every_other_time() -> None:
    """Otherwise reports would take processor time from the prompts in each step."""
    bench = Bench()
    for ms in (14, 28, 42, 56):
        bench.step(ms)
        bench.before_step(ms, step_ms=14)
    assert bench.reported == [[14], [28, 42], [56]]


def test_a_flush_reports_held_output_and_starts_a_new_interval() -> None:
    bench = Bench()
    bench.step(15)
    bench.pacer.flush()
    bench.step(30)
    assert bench.reported == [[15]]
    bench.step(36)
    assert bench.reported == [[15], [30, 36]]


def test_many_streams_are_reported_less_often() -> None:
    bench = Bench()
    bench.num_streams = 64
    for ms in (20, 40, 59, 61, 80, 102):
        bench.step(ms)
    assert bench.reported == [[20], [40, 59, 61], [80, 102]]
    bench.num_streams = 32
    for ms in (143, 159, 164):
        bench.step(ms)
    assert bench.reported[3:] == [[143], [159, 164]]


def test_no_number_of_streams_delays_a_reader_by_more_than_a_tenth_of_a_second() -> None:
    bench = Bench()
    bench.num_streams = 10_000
    for ms in (20, 119, 121):
        bench.step(ms)
    assert bench.reported == [[20], [119, 121]]


def test_an_interval_of_zero_holds_nothing_back_with_many_streams() -> None:
    bench = Bench(0)
    bench.num_streams = 1_000
    for ms in (1, 2):
        bench.step(ms)
    assert bench.reported == [[1], [2]]


def test_a_longer_configured_interval_is_kept() -> None:
    bench = Bench(0.5)
    bench.num_streams = 64
    for ms in (400, 500, 900, 1000):
        bench.step(ms)
    assert bench.reported == [[400, 500], [900, 1000]]
