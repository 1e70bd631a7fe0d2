"""The loop of an engine's core: receive commands, compute a step, report, until it is stopped.

The loop is the same on a thread of the client's process and in a process of its own.
"""

from __future__ import annotations

import queue
from typing import Protocol, TypeAlias

from service.engine.link.pace import Pace
from service.engine.messages import Before, Command, Emit, Report, StopCore

BEAT_S = 1.0  # how often an idle engine reports that it lives

CommandQueue: TypeAlias = queue.SimpleQueue[Command]


class Core(Protocol):
    """What the loop runs. Only the loop's thread calls it."""

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""

    @property
    def output_interval_s(self) -> float:
        """How long, in seconds, the outputs of short steps may be held back to leave together."""

    def open(self, emit: Emit) -> None:
        """Called once, before all else. `emit` takes reports of what is done outside of the steps, from any thread."""

    def receive(self, command: Command) -> None:
        """Handle one command other than `StopCore`. A failure is reported under the command's serial, never raised."""

    def step(self, before: Before | None = None) -> bool:
        """Run one step. Return True if its output should be flushed immediately. An exception ends the engine.

        `before` may be called before it computes, with the seconds that it will likely take.
        """

    def report(self, *, only_pressing: bool = False) -> Report:
        """Return all that was not reported yet, or only urgent output, and the state between two steps."""

    def close(self) -> None:
        """End what runs outside of the steps. Called once, after all else."""


def run(core: Core, command_queue: CommandQueue, emit: Emit, *, beat_s: float = BEAT_S) -> None:
    """Serve until `StopCore`. Raises what a step raises."""
    core.open(emit)
    pace = Pace(core.report, emit, core.output_interval_s)
    try:
        pace.report_all()
        while _receive(core, command_queue, pace, beat_s):
            if core.has_work:
                pace.stepped(is_urgent=core.step(pace.before))
    finally:
        core.close()


def _receive(core: Core, command_queue: CommandQueue, pace: Pace, beat_s: float) -> bool:
    """Handle all queued commands, waiting for one only if there is no work. Return False if the loop should end.

    Without work no step reports arrivals and ends, so they are reported here, with the engine's heartbeat.
    """
    is_news = False
    while True:
        if not core.has_work:
            pace.flush()
        try:
            command = command_queue.get(block=not core.has_work and not is_news, timeout=beat_s)
        except queue.Empty:
            if not core.has_work:
                pace.report_all()
            return True
        if isinstance(command, StopCore):
            pace.flush()
            return False
        core.receive(command)
        is_news = True
