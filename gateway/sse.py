"""The HTTP side of a streamed answer: server-sent events, and what keeps a silent stream open."""

from __future__ import annotations

import asyncio

from starlette.types import Send

from gateway.dialects.seam.encoder import COMMENT

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # nginx would hold events back
]


class EventStream:
    """One streamed response. A reader that does not keep up makes `write` wait.

    `ping` goes out after each `interval_s` seconds of silence, if it is not empty; a comment at the beginning, too.
    """

    def __init__(self, send: Send, *, ping: bytes, interval_s: float) -> None:
        self._send = send
        self._ping = ping
        self._interval_s = interval_s
        self._clock = asyncio.get_running_loop().time
        self._written_at = 0.0
        self.is_open = False

    async def open(self, first: bytes) -> None:
        """Commit to status 200; the headers and a comment go out at once."""
        self.is_open = True
        await self._send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await self._write(COMMENT + first if self._ping == COMMENT else first)

    async def write(self, events: bytes) -> None:
        """Send whole events, if there are any."""
        if events:
            await self._write(events)

    async def close(self, last: bytes = b"") -> None:
        """Send the last events and end the response."""
        await self._send({"type": "http.response.body", "body": last, "more_body": False})

    async def keep_alive(self) -> None:
        """Send a ping whenever nothing was sent for the interval, until cancelled. The stream must be open."""
        while self._ping:
            silence = self._clock() - self._written_at
            if silence < self._interval_s:
                await asyncio.sleep(self._interval_s - silence)
            else:
                await self.write(self._ping)

    async def _write(self, events: bytes) -> None:
        self._written_at = self._clock()
        await self._send({"type": "http.response.body", "body": events, "more_body": True})
