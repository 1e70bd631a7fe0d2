"""The loop of an engine's core: receive commands, run a step and report, until the core is stopped.

A thread of the client's process and a worker process run the same loop.
"""

from __future__ import annotations

import queue
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from service.engine.interface.messages import Add, BeforeStep, Command, Emit, Report, StopCore
from service.engine.link.report_pacer import ReportPacer

HEARTBEAT_INTERVAL_S = 1.0  # how often an idle engine reports that it is alive


class CommandQueue(queue.SimpleQueue[Command]):
    """The commands to a core. One thread puts them, another one gets them.

    `arrivals`, int32 [2], counts the requests that were put and those that were got; those of batches don't count.
    """

    def __init__(self) -> None:
        super().__init__()
        self.arrivals = np.zeros(2, np.int32)

    def put(self, item: Command, block: bool = True, timeout: float | None = None) -> None:  # noqa: FBT001, FBT002
        """Queue a command, and return immediately."""
        if _is_arrival(item):
            self.arrivals[0] += 1
        super().put(item, block, timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Command:  # noqa: FBT001, FBT002
        """Return the next command. Raise queue.Empty."""
        command = super().get(block, timeout)
        if _is_arrival(command):
            self.arrivals[1] += 1
        return command


def _is_arrival(command: Command) -> bool:
    return isinstance(command, Add) and not command.request.is_batch


@runtime_checkable
class EndsSteps(Protocol):
    """A core that can end a step of batches before it is complete, and repeat it."""

    def watch_arrivals(self, arrivals: npt.NDArray[np.int32]) -> None:
        """End steps of batches early while `arrivals[0]` is larger than `arrivals[1]`. Called before all steps."""


class Core(Protocol):
    """The part of an engine that the loop runs. Only the loop's thread calls it."""

    @property
    def has_work(self) -> bool:
        """True if a step would do any work."""

    @property
    def output_interval_s(self) -> float:
        """The seconds for which outputs of short steps may be held back to be sent together."""

    def open(self, emit: Emit) -> None:
        """Set the receiver of reports, once, before all other methods. The core may call `emit` on any thread."""

    def receive(self, command: Command) -> None:
        """Handle one command. A failure is reported under the command's serial, never raised.

        After `StopCore` only `close` is called.
        """

    def step(self, before: BeforeStep | None = None) -> bool:
        """Run one step. Return True if its output should be flushed immediately. An exception ends the engine.

        `before` may be called before the computation starts, with its expected duration in seconds.
        """

    def report(self, *, only_urgent: bool = False) -> Report:
        """Return all pending output, or only urgent output, and the state after the last step."""

    def close(self) -> None:
        """End the work that runs outside of the steps, once, after all other methods."""


def run(
    core: Core, command_queue: CommandQueue, emit: Emit, *, heartbeat_interval_s: float = HEARTBEAT_INTERVAL_S
) -> None:
    """Serve until `StopCore` is received. An exception of a step is raised."""
    core.open(emit)
    if isinstance(core, EndsSteps):
        core.watch_arrivals(command_queue.arrivals)
    pacer = ReportPacer(core.report, emit, core.output_interval_s)
    try:
        pacer.report_all()
        while _receive(core, command_queue, pacer, heartbeat_interval_s):
            if core.has_work:
                pacer.step_done(is_urgent=core.step(pacer.before_step))
    finally:
        core.close()


def _receive(core: Core, command_queue: CommandQueue, pacer: ReportPacer, heartbeat_interval_s: float) -> bool:
    """Handle all queued commands, waiting for one only if there is no work. Return False if the loop should end.

    Without work no step reports new and ended requests, so this function reports them, with the engine's heartbeat.
    """
    has_received = False
    while True:
        if not core.has_work:
            pacer.flush()
        try:
            command = command_queue.get(block=not core.has_work and not has_received, timeout=heartbeat_interval_s)
        except queue.Empty:
            if not core.has_work:
                pacer.report_all()
            return True
        if isinstance(command, StopCore):
            pacer.flush()
            core.receive(command)
            return False
        core.receive(command)
        has_received = True
