"""Headers are limited by the gateway itself: their size, the time in which they arrive, and the number of hosts."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.gateway.conftest import Gateway, until
from tests.waiting import GUARD_S

MAX_BYTES = 4096
PIECE = b"a" * 2048
SHORT = [f"--max-header-bytes={MAX_BYTES}", "--headers-timeout-s=0.5"]
TOO_LARGE = b"the headers exceed the limit of 4096 bytes\n"


@pytest.fixture
def flags() -> list[str]:
    """A size that tests reach soon, and a time that they never reach."""
    return [f"--max-header-bytes={MAX_BYTES}", f"--headers-timeout-s={GUARD_S}"]


async def exchange(gateway: Gateway, *pieces: bytes) -> bytes:
    """Send pieces on a connection, of which the last is the first that is too much, and return all that is received."""
    opened = gateway.server.server_state.connections
    before = len(opened)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    await until(lambda: len(opened) > before)  # the gateway reads from now on
    answer = b""
    async with asyncio.timeout(GUARD_S):
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.01)  # so that the gateway reads the pieces one by one
            while received := await reader.read(1 << 16):
                answer += received
        except ConnectionError:  # it was closed while a piece was sent
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
    return answer


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b"GET /version HTTP/1.1\r\nhost: a\r\nx: " + 3 * PIECE + b"\r\n\r\n"], id="one header"),
        pytest.param([b"GET /version HTTP/1.1\r\nx: " + PIECE, PIECE, PIECE, PIECE], id="an endless header"),
        pytest.param([b"GET /version HTTP/1.1\r\n", *[b"x: " + PIECE + b"\r\n"] * 3], id="endless headers"),
        pytest.param([b"GET /version?" + PIECE, PIECE], id="an endless target"),
        pytest.param([b"GET /version HTTP/1.1\r\n" + b"a:b\r\n" * 3000 + b"\r\n"], id="many headers"),
    ],
)
async def test_large_headers_are_rejected(gateway: Gateway, pieces: list[bytes]) -> None:
    """Headers above the limit get 431 and the end of the connection, also if they never end; others are served."""
    answer = await exchange(gateway, *pieces)
    assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert answer.endswith(TOO_LARGE)
    assert (await gateway.http.get("/version")).status_code == 200


@pytest.mark.parametrize("trailer", [[PIECE] * 3, [PIECE + b"\r\nx: "] * 2], ids=["one", "many"])
async def test_large_trailers_are_rejected(gateway: Gateway, trailer: list[bytes]) -> None:
    """Headers after a body in chunks count, too."""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
    answer = await exchange(gateway, head + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nx: ", *trailer)
    assert answer.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    ("version", "hosts", "status"),
    [
        ("1.1", ["127.0.0.1"], 200),
        ("1.0", [], 200),
        ("1.1", [], 400),
        ("1.1", ["127.0.0.1", "attacker.example"], 400),
        ("1.1", ["127.0.0.1", "127.0.0.1"], 400),
        ("1.0", ["attacker.example", "127.0.0.1"], 400),
    ],
)
async def test_a_request_has_one_host(gateway: Gateway, version: str, hosts: list[str], status: int) -> None:
    """A request without a Host, or with several, is rejected and ends the connection."""
    lines = [f"GET /version HTTP/{version}", *(f"Host: {host}" for host in hosts), "Connection: close", "", ""]
    answer = await exchange(gateway, "\r\n".join(lines).encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


async def test_headers_up_to_the_limit_are_accepted(gateway: Gateway) -> None:
    """The limit leaves enough for every header below it, on each request of a connection."""
    value = "a" * (MAX_BYTES - 500)
    for _ in range(3):
        assert (await gateway.http.get("/version", headers={"x": value})).status_code == 200
    body = {"x": "b" * (1 << 20)}  # a large body in pieces is no header
    assert (await gateway.http.post("/v1/chat/completions", json=body, headers={"x": value})).status_code == 400


@pytest.mark.parametrize("flags", [SHORT])
@pytest.mark.parametrize("before", [b"", b"GET /version HTTP/1.1\r\nhost: a\r\n\r\n"], ids=["first", "second"])
async def test_slow_headers_are_rejected(gateway: Gateway, flags: list[str], before: bytes) -> None:
    """Headers that don't arrive in time get 408 and the end of the connection, also after another request."""
    answer = await exchange(gateway, before, b"GET /version HTTP/1.1\r\nhost: a\r\n")
    assert answer.startswith(b"HTTP/1.1 200 " if before else b"HTTP/1.1 408 ")
    assert answer.endswith(b"the headers exceed the limit of 0.5 s\n")


@pytest.mark.slow
@pytest.mark.parametrize("flags", [SHORT])
async def test_slow_body_is_not_limited_by_the_header_timeout(gateway: Gateway, flags: list[str]) -> None:
    """The time of the headers ends with them."""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 2\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(head + b"connection: close\r\n\r\n{")
    await asyncio.sleep(2 * gateway.settings.headers_timeout_s)
    writer.write(b"}")
    async with asyncio.timeout(GUARD_S):
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()
