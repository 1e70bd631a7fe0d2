"""HTTP/1.1 over a plain socket: bytes are sent as they are, and responses are parsed as they arrive."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass

Address = tuple[str, int]
LINGER_S = 0.3  # the time in which a further response is expected to begin
MAX_REPLY_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Response:
    """A complete response: its status, its headers by lower-case name, and its body without the framing."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """The answer to bytes on a connection: the complete responses, all bytes, and whether the server closed it."""

    responses: list[Response]
    raw: bytes
    is_closed: bool

    @property
    def statuses(self) -> list[int]:
        """The statuses of the complete responses, without those of interim ones."""
        return [response.status for response in self.responses if response.status >= 200]

    def __str__(self) -> str:
        ending = "closed" if self.is_closed else "open"
        return f"statuses {self.statuses}, connection {ending}"


def exchange(address: Address, content: bytes | Iterable[bytes], timeout_s: float, *, is_ended: bool = False) -> Reply:
    """Send bytes on a new connection and return the reply; with `is_ended`, the sending side is closed afterwards.

    Reading ends when the server closes the connection, when no further response begins, or at the timeout.
    """
    with socket.create_connection(address, timeout_s) as connection:
        is_open = True
        for piece in [content] if isinstance(content, bytes) else content:
            try:
                connection.sendall(piece)
            except OSError:  # closed by the server, which may have answered
                is_open = False
                break
        if is_ended and is_open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
        return read_reply(connection, timeout_s)


def read_reply(connection: socket.socket, timeout_s: float) -> Reply:
    """Read responses until the server closes the connection, none is expected any more, or the timeout."""
    raw, deadline = b"", time.monotonic() + timeout_s
    found: list[Response] = []
    while len(raw) < MAX_REPLY_BYTES and time.monotonic() < deadline:
        left = max(deadline - time.monotonic(), 0.001)
        connection.settimeout(min(left, LINGER_S) if any(each.status >= 200 for each in found) else left)
        try:
            received = connection.recv(65536)
        except TimeoutError:
            break
        except OSError:
            received = b""
        raw += received
        found = parsed_responses(raw, is_closed=not received)
        if not received:
            return Reply(found, raw, is_closed=True)
    return Reply(found, raw, is_closed=False)


def parsed_responses(raw: bytes, *, is_closed: bool) -> list[Response]:
    """Return the complete responses in the bytes that a server has sent."""
    found: list[Response] = []
    while b"\r\n\r\n" in raw:
        head, _, rest = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        if not first.startswith("HTTP/") or len(words) < 2 or not words[1].isdecimal():
            break
        pairs = (line.partition(":")[::2] for line in lines)
        headers = {name.strip().lower(): value.strip() for name, value in pairs}
        body, rest, is_complete = _body(int(words[1]), headers, rest, is_closed=is_closed)
        if not is_complete:
            break
        found.append(Response(int(words[1]), headers, body))
        raw = rest
    return found


def _body(status: int, headers: dict[str, str], rest: bytes, *, is_closed: bool) -> tuple[bytes, bytes, bool]:
    """Return a response's body, the bytes after it, and whether it is complete."""
    if status < 200 or status in {204, 304}:
        return b"", rest, True
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return _chunks(rest)
    length = headers.get("content-length", "")
    if length.isdecimal():
        size = int(length)
        return rest[:size], rest[size:], len(rest) >= size
    return rest, b"", is_closed


def _chunks(rest: bytes) -> tuple[bytes, bytes, bool]:
    body = b""
    while b"\r\n" in rest:
        line, _, rest = rest.partition(b"\r\n")
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError:
            return body, rest, True  # invalid framing: nothing after it can be parsed
        if len(rest) < size + 2:
            return body, rest, False
        body, rest = body + rest[:size], rest[size + 2 :]
        if size == 0:
            return body, rest, True
    return body, rest, False


def head(method: str, path: str, address: Address, *lines: str) -> bytes:
    """Return a request's head with a `Host`, these header lines, and the empty line that ends it."""
    host = f"{address[0]}:{address[1]}"
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *lines, "", ""]).encode("latin-1")
