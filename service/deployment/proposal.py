"""A change of the wanted state that a client has requested."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from service.deployment.changes import Changes
from service.engine.interface.running_load import LoadCancelled, RunningLoad

Result = TypeVar("Result")


class Step(Protocol):
    """Makes one model or adapter what the target says. With `may_load=False` it loads nothing."""

    def __call__(self, target: Changes, *, may_load: bool = True) -> Awaitable[None]: ...


@dataclass(slots=True)
class Proposal(Generic[Result]):
    """A change of the wanted state with the step that applies it. Created in the event loop."""

    name: str  # of the model, or MODEL:NAME of the adapter
    change: Callable[[Changes], Changes]  # raises the error if the change is impossible
    check: Callable[[], None]  # raises the error if the caller may not make the change
    step: Step
    result: Callable[[], Result]  # called as soon as the change is applied
    is_applied_first: bool = True  # before it is stored; if False, it is stored first
    load: RunningLoad = field(default_factory=RunningLoad)  # that the step carries out
    on_begin: Callable[[], None] = lambda: None  # called when earlier proposals are settled
    has_begun: bool = False
    outcome: asyncio.Future[Result] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def begin(self) -> bool:
        """Begin to apply the change. Return False if it was withdrawn."""
        if self.outcome.done():
            return False
        self.has_begun = True
        self.on_begin()
        return True

    def withdraw(self) -> None:
        """Raise LoadCancelled in the caller, and never apply the change, unless that has begun."""
        if not self.has_begun:
            self.fail(LoadCancelled())

    def succeed(self) -> None:
        """Return the result to the caller."""
        if not self.outcome.done():
            self.outcome.set_result(self.result())

    def fail(self, error: Exception) -> None:
        """Raise an error in the caller; the error is dropped if the client has disconnected."""
        if not self.outcome.done():
            self.outcome.set_exception(error)
            self.outcome.exception()
