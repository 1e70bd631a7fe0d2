"""The events of a response that this process generates, for all clients that follow it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from service.contract.responses.background import Event, is_terminal


class LiveEvents:
    """Events in the order of their numbers. Used on the event loop's thread only."""

    def __init__(self) -> None:
        self.serialized: list[bytes] = []
        self._is_closed = False
        self._changed = asyncio.Event()

    def put(self, event: Event) -> None:
        """Append an event with the next number; one that was put before is ignored."""
        if event.sequence_number == len(self.serialized):
            self.serialized.append(event.SerializeToString())
            self._notify()

    def close(self) -> None:
        """End all streams. Those that have received no terminal event continue with the store."""
        self._is_closed = True
        self._notify()

    async def after(self, number: int) -> AsyncGenerator[Event, None]:
        """Yield the events after a number, up to the terminal one, or until `close`."""
        while True:
            changed = self._changed
            while (number := number + 1) < len(self.serialized):
                event = Event.FromString(self.serialized[number])
                yield event
                if is_terminal(event):
                    return
            number -= 1
            if self._is_closed:
                return
            await changed.wait()

    def _notify(self) -> None:
        """Continue all streams that wait."""
        self._changed.set()
        self._changed = asyncio.Event()
