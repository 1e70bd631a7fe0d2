"""The interface between an engine's client and the connection to its core."""

from __future__ import annotations

from typing import Protocol

from service.engine.messages import Command, Report


class Receiver(Protocol):
    """Who is told. Everything is called on the event loop."""

    def on_report(self, report: Report) -> None:
        """The engine's side has something to tell."""

    def on_death(self, reason: BaseException, back_in_s: float | None) -> None:
        """The engine's side has died, and all requests with it.

        It is expected back in `back_in_s` seconds; None if it isn't started again.
        """

    def on_return(self) -> None:
        """The engine's side was started again."""


class Link(Protocol):
    """The way to an engine's side. All methods belong to the event loop that started it."""

    def start(self, receiver: Receiver) -> None:
        """Let the engine's side run, and tell `receiver` on the running loop."""

    @property
    def pid(self) -> int | None:
        """The process of the engine's side; None if it is this one, or away."""

    def kill(self) -> None:
        """End the engine's side at once if it is a process, as if it had died by itself."""

    @property
    def can_launch_again(self) -> bool:
        """Whether the engine's side gives its memory back at a stop, and can be launched again after."""

    async def launch_again(self) -> None:
        """After a stop: load what was stopped, and tell the same receiver. Raises ModelLoadError."""

    def send(self, command: Command) -> None:
        """Returns at once. Mail to an engine that has died is lost."""

    async def stop(self) -> None:
        """End the engine's side; returns when the step in progress, if any, is done. Does nothing before the start."""
