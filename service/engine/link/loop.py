"""The loop of an engine's core: receive commands, compute a step, report, until it is stopped.

The same whether the loop runs on a thread of the front's process or is a process of its own.
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

    def open(self, tell: Emit) -> None:
        """Called once, before all else. `tell` takes reports of what is done beside the steps, from any thread."""

    def receive(self, command: Command) -> None:
        """Take note of mail, but for `StopCore`. What is wrong with it is told of its id, and never raised."""

    def step(self, before: Before | None = None) -> bool:
        """Compute one step; whether somebody waits for what it has brought. Whatever it raises ends the engine.

        `before` may be called before it computes, with the seconds that it will likely take.
        """

    def report(self, *, only_pressing: bool = False) -> Report:
        """What was not told yet, or of it what somebody waits for, and the state between two steps."""

    def close(self) -> None:
        """End what runs beside the steps. Called once, after all else."""


def run(core: Core, command_queue: CommandQueue, tell: Emit, *, beat_s: float = BEAT_S) -> None:
    """Serve until `StopCore`. Passes on whatever a step raises."""
    core.open(tell)
    pace = Pace(core.report, tell, core.output_interval_s)
    try:
        pace.tell()
        while _receive(core, command_queue, pace, beat_s):
            if core.has_work:
                pace.stepped(is_urgent=core.step(pace.before))
    finally:
        core.close()


def _receive(core: Core, command_queue: CommandQueue, pace: Pace, beat_s: float) -> bool:
    """Take what is in the mailbox, waiting for it only if there is no work; False if the loop is to end.

    Without work there is no step to report what has come or gone, so it is reported here, and that the engine lives.
    """
    is_news = False
    while True:
        if not core.has_work:
            pace.flush()
        try:
            command = command_queue.get(block=not core.has_work and not is_news, timeout=beat_s)
        except queue.Empty:
            if not core.has_work:
                pace.tell()
            return True
        if isinstance(command, StopCore):
            pace.flush()
            return False
        core.receive(command)
        is_news = True
