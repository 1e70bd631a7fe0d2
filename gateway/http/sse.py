"""Streams of server-sent events or lines: the HTTP response, and the pings that keep an idle stream open."""

from __future__ import annotations

import asyncio

from starlette.types import Send

from gateway.dialects.seam.encoder import StreamFormat

_HEADERS = [
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # prevents nginx from buffering events
]


class EventStream:
    """One streamed response. `write` waits while the client reads too slowly.

    A non-empty `ping` is sent after each `interval_s` seconds without an event. Streams without pauses have no pings,
    so that benchmark clients that parse only `data:` lines work.
    """

    def __init__(
        self, send: Send, *, ping: bytes, interval_s: float, stream_format: StreamFormat = StreamFormat.EVENTS
    ) -> None:
        self._send = send
        charset = "; charset=utf-8" if stream_format is StreamFormat.EVENTS else ""  # JSON has no other
        self._headers = [(b"content-type", f"{stream_format.value}{charset}".encode()), *_HEADERS]
        self._ping = ping
        self._interval_s = interval_s
        self._clock = asyncio.get_running_loop().time
        self._written_at = 0.0
        self.is_open = False

    async def open(self, first: bytes) -> None:
        """Send status 200 and the headers immediately, even if the first event is empty."""
        self.is_open = True
        await self._send({"type": "http.response.start", "status": 200, "headers": self._headers})
        await self._write(first)

    async def write(self, events: bytes) -> None:
        """Send complete events; nothing if empty."""
        if events:
            await self._write(events)

    async def close(self, last: bytes = b"") -> None:
        """Send the last events and end the response."""
        await self._send({"type": "http.response.body", "body": last, "more_body": False})

    async def keep_alive(self) -> None:
        """Send a ping after each interval without events, until cancelled. The stream must be open."""
        while self._ping:
            idle_s = self._clock() - self._written_at
            if idle_s < self._interval_s:
                await asyncio.sleep(self._interval_s - idle_s)
            else:
                await self.write(self._ping)

    async def _write(self, events: bytes) -> None:
        """Send events and record the time."""
        self._written_at = self._clock()
        await self._send({"type": "http.response.body", "body": events, "more_body": True})
