"""A call to an engine's core that is not a generation, and its future result."""

from __future__ import annotations

import asyncio

from service.engine.interface.messages import Output
from service.generation.errors import EngineError


class PendingCall:
    """A call that the core answers once, independently of its steps, such as a constraint to compile or a check.

    `description` identifies it for the `CrashQuarantine`, if clients may cause the same call again.
    """

    def __init__(self, description: str | None = None) -> None:
        self._description = description
        self.started = asyncio.Event()
        self.done: asyncio.Future[Output] = asyncio.get_running_loop().create_future()

    @property
    def is_complete(self) -> bool:
        """Always False: the core keeps the result until the call is aborted."""
        return False

    def description(self) -> str | None:
        """Return the description, or None if the call is done."""
        return None if self.done.done() else self._description

    def start(self) -> None:
        """Record that the core has started."""
        self.started.set()

    def put(self, output: Output) -> None:
        """Set the result, unless the call is done."""
        if not self.done.done():
            self.done.set_result(output)

    def end(self, error: EngineError) -> None:
        """Set the error, unless the call is done."""
        self.started.set()
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # mark it as retrieved: the caller may have left
