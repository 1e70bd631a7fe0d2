"""HTTP/2 pings of clients: those of a call that waits for its first token, and floods."""

from __future__ import annotations

import asyncio
import contextlib
from importlib.util import find_spec
from pathlib import Path

import pytest

from service.server.listener import MIN_PING_INTERVAL_S, connection_options
from tests.service.fakes import running, settings_of
from tests.waiting import GUARD_S

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)  # with an empty SETTINGS frame
_PING, _GOAWAY = 6, 7
_ACK = 1
_NUM_PINGS = 6  # gRPC ends a connection at the third one that it finds too early


async def _until(reader: asyncio.StreamReader, wanted: tuple[int, int]) -> bool:
    """Read frames until one has the type and flags `wanted`. Return False at a GOAWAY frame or the connection's end."""
    while True:
        try:
            head = await reader.readexactly(9)
            await reader.readexactly(int.from_bytes(head[:3]))
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        if head[3] == _GOAWAY:
            return False
        if (head[3], head[4]) == wanted:
            return True


@pytest.mark.parametrize(("interval_s", "stays"), [(MIN_PING_INTERVAL_S * 1.1, True), (0.0, False)])
async def test_a_connection_without_data_may_be_pinged(*, interval_s: float, stays: bool) -> None:
    """A proxy pings while a long prompt is computed; only a client that floods the server loses its connection."""
    async with running() as run, asyncio.timeout(GUARD_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", run.port)
        writer.write(PREFACE)
        is_open = True
        for number in range(_NUM_PINGS if stays else 1000):
            with contextlib.suppress(ConnectionError):
                writer.write(bytes([0, 0, 8, _PING, 0, 0, 0, 0, 0]) + number.to_bytes(8))
                await writer.drain()
            if not (is_open := await _until(reader, (_PING, _ACK))):
                break
            await asyncio.sleep(interval_s)
        writer.close()
    assert is_open == stays


def test_grpc_knows_all_options_of_the_server() -> None:
    """GRPC ignores an option whose name it doesn't know."""
    library = find_spec("grpc._cython.cygrpc")
    assert library is not None
    content = Path(str(library.origin)).read_bytes()
    assert [name for name, _ in connection_options(settings_of()) if name.encode() not in content] == []
