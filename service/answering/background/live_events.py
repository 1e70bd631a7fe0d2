"""The events of a background response that this process generates, kept for every client that streams it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from service.contract.responses.background import Event, is_terminal


class LiveEvents:
    """The events in the order of their sequence numbers. Not thread-safe: used on the event loop only.

    `serialized` has each event as protobuf bytes; the index is its sequence number.
    """

    def __init__(self) -> None:
        self.serialized: list[bytes] = []
        self._is_closed = False
        self._changed = asyncio.Event()

    def put(self, event: Event) -> None:
        """Append an event with the next sequence number. An event with any other number is ignored."""
        if event.sequence_number == len(self.serialized):
            self.serialized.append(event.SerializeToString())
            self._notify()

    def close(self) -> None:
        """End all streams. A client whose stream had no terminal event is then served from the store."""
        self._is_closed = True
        self._notify()

    async def after(self, number: int) -> AsyncGenerator[Event, None]:
        """Yield the events with sequence numbers above `number`, up to the terminal event or until `close`."""
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
        """Wake all streams that wait for an event."""
        self._changed.set()
        self._changed = asyncio.Event()
