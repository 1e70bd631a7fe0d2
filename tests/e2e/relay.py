"""A TCP relay that can freeze: both ends stay connected but receive nothing, as over a broken network.

It can also cut its connections, as the system does for a process that is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator


class Relay:
    """A relay between its own port and another one, until it is frozen."""

    def __init__(self) -> None:
        self.port = 0
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._writers: set[asyncio.StreamWriter] = set()

    def freeze(self) -> None:
        """Stop forwarding, including the end of connections."""
        self._is_open.clear()

    def cut(self, *, reset: bool) -> None:
        """End all connections, by resets or like a process that has read everything."""
        for writer in self._writers:
            if reset:
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
        self._writers.clear()

    @classmethod
    @contextlib.asynccontextmanager
    async def to(cls, port: int) -> AsyncIterator[Relay]:
        """Yield a relay to a port of the loopback address."""
        relay = cls()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", port)
            relay._writers |= {writer, upstream_writer}
            await asyncio.gather(relay._pass(reader, upstream_writer), relay._pass(upstream_reader, writer))

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        relay.port = server.sockets[0].getsockname()[1]
        try:
            yield relay
        finally:
            server.close()
            for writer in relay._writers:
                writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._is_open.wait()
                writer.write(data)
                await writer.drain()
            await self._is_open.wait()
            writer.close()
