"""A call to an engine's core that is not a generation, and its future result."""

from __future__ import annotations

import asyncio

from service.engine.messages import Output
from service.generation.errors import EngineError


class PendingCall:
    """What the engine's side does once, at a time of its own: a constraint to compile, a check.

    `words` tell what it is, if others may ask for the same again.
    """

    def __init__(self, words: str | None = None) -> None:
        self._words = words
        self.started = asyncio.Event()
        self.done: asyncio.Future[Output] = asyncio.get_running_loop().create_future()

    @property
    def is_complete(self) -> bool:
        """False, since the engine's side keeps what it has made until it is aborted."""
        return False

    def words(self) -> str | None:
        """What was asked for, if it isn't done."""
        return None if self.done.done() else self._words

    def start(self) -> None:
        """It has begun."""
        self.started.set()

    def put(self, output: Output) -> None:
        """It is done, and this is what it has brought."""
        if not self.done.done():
            self.done.set_result(output)

    def end(self, error: EngineError) -> None:
        """It has failed."""
        self.started.set()
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # whoever asked may have left
