"""When an engine reports its output: after each step, or less often if steps are short.

A message costs every process on its path about as much with one token as with twenty. So the tokens of steps that
follow each other within a few milliseconds are reported together, and with many streams the interval is longer, which
leaves the processors to the step. Before a long step, such as a prompt's, held output is reported. A first token is
reported immediately and alone: otherwise, when requests arrive one after the other, each first token would take a token
of every other stream with it.
"""

from __future__ import annotations

import time
from collections import abc
from typing import Protocol

from service.engine.messages import Emit, Report

# 32 streams every 20 ms. Reporting more takes half of two cores from the step.
_OUTPUTS_PER_S = 1_600
_LONGEST_S = 0.1  # a reader sees text grow ten times a second

# Shares of the interval: output is reported before a step that would end after _LATE, if _EARLY has passed.
_LATE, _EARLY = 1.25, 0.5


class Reports(Protocol):
    """Takes a core's pending output."""

    def __call__(self, *, only_pressing: bool = False) -> Report:
        """Return all that was not reported yet, or only first tokens and other urgent output."""


class Pace:
    """Holds a core's output back for at most `interval_s` seconds, or a little longer with many streams.

    Used by the engine's thread only.
    """

    def __init__(
        self,
        report: Reports,
        emit: Emit,
        interval_s: float,
        clock: abc.Callable[[], float] = time.monotonic,
    ) -> None:
        """With an interval of 0 nothing is held back.

        If an interval's reports have more outputs than `_OUTPUTS_PER_S` allows, the next one is longer in proportion.
        """
        self._report = report
        self._emit = emit
        self._least_s = self._interval_s = interval_s
        self._clock = clock
        self._is_held = self._was_early = False
        self._reported_at = clock()

    def stepped(self, *, is_urgent: bool) -> None:
        """Report a step now or with one of the next steps; report its urgent output now."""
        self._is_held = True
        if self._clock() - self._reported_at >= self._interval_s:
            self.report_all()
        elif is_urgent:
            self._pass_on(self._report(only_pressing=True))

    def before(self, step_s: float) -> None:
        """Report held output ahead of a step of `step_s` seconds, if it would otherwise be held for too long.

        Not twice in a row: a burst of prompts needs the processors as well.
        """
        held_s = self._clock() - self._reported_at
        is_late = held_s >= _EARLY * self._interval_s and held_s + step_s > _LATE * self._interval_s
        if self._is_held and is_late and not self._was_early:
            self.report_all()
            self._was_early = True

    def flush(self) -> None:
        """Report held output, if any: there may be no next step."""
        if self._is_held:
            self.report_all()

    def report_all(self) -> None:
        """Report all output, and that the engine is alive."""
        self._is_held = self._was_early = False
        self._reported_at = self._clock()
        report = self._report()
        if self._least_s:
            wanted_s = min(len(report.outputs) / _OUTPUTS_PER_S, _LONGEST_S)
            self._interval_s = max(self._least_s, wanted_s)
        self._pass_on(report)

    def _pass_on(self, report: Report) -> None:
        report.heartbeat = time.monotonic()
        self._emit(report)
