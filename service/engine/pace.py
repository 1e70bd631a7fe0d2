"""How often an engine tells what it has generated: each step, or less often where steps are short.

A message costs every process on its way about as much with one token as with twenty. So the tokens of steps that follow
each other within a few milliseconds leave together. What somebody waits for leaves at once.
"""

from __future__ import annotations

import time
from collections import abc

from service.engine.mail import Output, Report, Tell
from service.generation.output import GenerationOutput, merged


class Pace:
    """Holds reports back, for `interval_s` seconds at most. Used by the engine's thread only."""

    def __init__(self, tell: Tell, interval_s: float, clock: abc.Callable[[], float] = time.monotonic) -> None:
        """With an interval of 0 nothing is held back."""
        self._tell = tell
        self._interval_s = interval_s
        self._clock = clock
        self._held: Report | None = None
        self._flushed = clock()

    def put(self, report: Report) -> None:
        """Tell a step's report now, or with one of the next steps'."""
        self._held = report if self._held is None else _joined(self._held, report)
        if _is_urgent(report) or self._clock() - self._flushed >= self._interval_s:
            self.flush()

    def flush(self) -> None:
        """Tell what is held back: the next step may take long, or there may be none."""
        if self._held is None:
            return
        held, self._held = self._held, None
        held.outputs = _merged(held.outputs)
        self._flushed = self._clock()
        self._tell(held)


def _joined(held: Report, report: Report) -> Report:
    """Both in one. Only a report that is not urgent is held, so `held` has neither starts nor errors."""
    held.outputs.extend(report.outputs)
    held.stats.extend(report.stats)
    held.started, held.errors, held.heartbeat = report.started, report.errors, report.heartbeat
    return held


def _is_urgent(report: Report) -> bool:
    """Whether somebody's answer begins or ends in it."""
    return bool(report.started or report.errors) or any(
        not isinstance(output, GenerationOutput)
        or output.finish_reason is not None
        or output.timings.first_token == output.token_times[0]
        for _, output in report.outputs
    )


def _merged(outputs: list[tuple[int, Output]]) -> list[tuple[int, Output]]:
    """One output a choice, after those that are whole."""
    by_choice: dict[tuple[int, int], list[GenerationOutput]] = {}
    others: list[tuple[int, Output]] = []
    for serial, output in outputs:
        if isinstance(output, GenerationOutput) and not output.is_whole:
            by_choice.setdefault((serial, output.choice_index), []).append(output)
        else:
            others.append((serial, output))
    return [*others, *((serial, merged(each)) for (serial, _), each in by_choice.items())]
