"""The interface between an engine's client and the connection to its core."""

from __future__ import annotations

from typing import Any, Protocol

from service.engine.interface.messages import Command, Report


class Receiver(Protocol):
    """The receiver of a core's reports. All methods are called on the event loop."""

    def on_report(self, report: Report) -> None:
        """Handle a report from the core."""

    def on_death(self, reason: BaseException, restart_in_s: float | None) -> None:
        """Handle the death of the core, with which all requests are lost.

        The core is expected to serve again in `restart_in_s` seconds. None means that it is not restarted, either
        because it has died too often or because the model's files have changed (`reason` is ModelChanged).
        """

    def on_restart(self) -> None:
        """Handle the restart of the core."""


class Link(Protocol):
    """The connection to an engine's core. All methods must be called on the event loop that started it."""

    def start(self, receiver: Receiver) -> None:
        """Run the core, and report to `receiver` on the running loop."""

    @property
    def pid(self) -> int | None:
        """The core's process id, or None if the core runs in this process or its process is down."""

    def kill(self) -> None:
        """Kill the core's process, if it has one, as if it had crashed."""

    @property
    def is_suspended(self) -> bool:
        """True if the core's process was stopped by a signal such as SIGSTOP, and has not been continued."""

    @property
    def can_relaunch(self) -> bool:
        """True if stopping the core frees its memory and it can be launched again afterwards."""

    async def relaunch(self) -> Any:
        """Load the core again after a stop, report to the same receiver, and return the core's description.

        Raise ModelLoadError if that fails, and its subclass ModelChanged if the model's files have changed.
        """

    def send(self, command: Command) -> None:
        """Send a command and return immediately. A command to a dead core is lost."""

    async def stop(self) -> None:
        """End the core, and return when the step in progress, if any, is done. Do nothing before the start."""
