"""The timing of an engine's reports: after each step, or less often if steps are short.

A message with twenty tokens costs each process on its path about as much as a message with one. So the tokens of steps
that are a few milliseconds apart are reported together. With many streams the interval is longer, which leaves more
processor time to the steps. Held output is reported before a long step, such as a prefill. A first token is reported
immediately, without the output of other streams; otherwise each of several successive requests would flush a token of
every other stream.
"""

from __future__ import annotations

import time
from collections import abc
from typing import Protocol

from service.engine.interface.messages import Emit, Report

# 32 streams every 20 ms. Reporting more takes half of two cores away from the steps.
_OUTPUTS_PER_S = 1_600
_MAX_INTERVAL_S = 0.1  # a client sees text grow at least ten times per second

# Fractions of the interval: output is reported before a step that would end after _LATE, if _EARLY has passed.
_LATE, _EARLY = 1.25, 0.5


class Reports(Protocol):
    """The report method of a core."""

    def __call__(self, *, only_urgent: bool = False) -> Report:
        """Return all pending output, or only first tokens and other urgent output."""


class ReportPacer:
    """Holds a core's output back for at most `interval_s` seconds, or up to 0.1 seconds with many streams.

    Only the engine's thread uses it.
    """

    def __init__(
        self,
        report: Reports,
        emit: Emit,
        interval_s: float,
        clock: abc.Callable[[], float] = time.monotonic,
    ) -> None:
        """If the interval is 0, no output is held back.

        Otherwise the next interval is longer if a report has more outputs than `_OUTPUTS_PER_S` allows.
        """
        self._report = report
        self._emit = emit
        self._min_interval_s = self._interval_s = interval_s
        self._clock = clock
        self._is_held = self._flushed_early = False
        self._reported_at = clock()

    def step_done(self, *, is_urgent: bool) -> None:
        """Report a step's urgent output now, and its other output now or after one of the next steps."""
        self._is_held = True
        if self._clock() - self._reported_at >= self._interval_s:
            self.report_all()
        elif is_urgent:
            self._emit_report(self._report(only_urgent=True))

    def before_step(self, step_s: float) -> None:
        """Report held output before a step of `step_s` seconds, if it would otherwise be held for too long.

        This happens at most once per interval, because a burst of prompts needs the processor time as well.
        """
        held_s = self._clock() - self._reported_at
        is_late = held_s >= _EARLY * self._interval_s and held_s + step_s > _LATE * self._interval_s
        if self._is_held and is_late and not self._flushed_early:
            self.report_all()
            self._flushed_early = True

    def flush(self) -> None:
        """Report held output, if any, because there may be no next step."""
        if self._is_held:
            self.report_all()

    def report_all(self) -> None:
        """Report all output, with the engine's heartbeat."""
        self._is_held = self._flushed_early = False
        self._reported_at = self._clock()
        report = self._report()
        if self._min_interval_s:
            interval_s = min(len(report.outputs) / _OUTPUTS_PER_S, _MAX_INTERVAL_S)
            self._interval_s = max(self._min_interval_s, interval_s)
        self._emit_report(report)

    def _emit_report(self, report: Report) -> None:
        report.heartbeat = time.monotonic()
        self._emit(report)
