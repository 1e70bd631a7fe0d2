"""When an engine reports its output: after each step, or less often if steps are short.

A message costs every process on its way about as much with one token as with twenty. So the tokens of steps that follow
each other within a few milliseconds leave together, and where many streams are told, a little more of them: what is
computed has the processors then, and not the telling. A long step, one with a prompt, finds little kept. What somebody
waits for leaves at once, and by itself: where requests come one after the other, each one's first token would else take
along a token of every other stream.
"""

from __future__ import annotations

import time
from collections import abc
from typing import Protocol

from service.engine.messages import Emit, Report

# 32 streams every 20 ms. Telling more takes half of two cores from the step.
_OUTPUTS_PER_S = 1_600
_LONGEST_S = 0.1  # a reader sees text grow, ten times a second


# Of an interval: a step with which it would become longer than that finds it told, if this much of it has passed.
_LATE, _EARLY = 1.25, 0.5


class Reports(Protocol):
    """What a core has to tell."""

    def __call__(self, *, only_pressing: bool = False) -> Report:
        """All that was not told yet, or of it what somebody waits for."""


class Pace:
    """Lets a core keep what it has to tell, for `interval_s` seconds at most, or a little longer for many streams.

    Used by the engine's thread only.
    """

    def __init__(
        self,
        report: Reports,
        tell: Emit,
        interval_s: float,
        clock: abc.Callable[[], float] = time.monotonic,
    ) -> None:
        """With an interval of 0 nothing is kept.

        Where an interval's reports have more outputs than `_OUTPUTS_PER_S`, the next one is as much longer.
        """
        self._report = report
        self._tell = tell
        self._least_s = self._interval_s = interval_s
        self._clock = clock
        self._is_kept = self._was_early = False
        self._told = clock()

    def stepped(self, *, is_urgent: bool) -> None:
        """Tell of a step now, or with one of the next steps; of what somebody waits for now."""
        self._is_kept = True
        if self._clock() - self._told >= self._interval_s:
            self.tell()
        elif is_urgent:
            self._pass_on(self._report(only_pressing=True))

    def before(self, step_s: float) -> None:
        """Tell what is kept ahead of a step of so many seconds, if it would else be kept for too long.

        Not twice in a row: a burst of prompts has the processors as well.
        """
        kept_s = self._clock() - self._told
        is_late = kept_s >= _EARLY * self._interval_s and kept_s + step_s > _LATE * self._interval_s
        if self._is_kept and is_late and not self._was_early:
            self.tell()
            self._was_early = True

    def flush(self) -> None:
        """Tell what is kept, if anything: there may be no next step."""
        if self._is_kept:
            self.tell()

    def tell(self) -> None:
        """Tell of all there is, and that the engine lives."""
        self._is_kept = self._was_early = False
        self._told = self._clock()
        report = self._report()
        if self._least_s:
            wanted_s = min(len(report.outputs) / _OUTPUTS_PER_S, _LONGEST_S)
            self._interval_s = max(self._least_s, wanted_s)
        self._pass_on(report)

    def _pass_on(self, report: Report) -> None:
        report.heartbeat = time.monotonic()
        self._tell(report)
