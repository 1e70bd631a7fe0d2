"""HTTP/2 without encryption over a plain socket: any frame in any order, and what the server answers."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from conformance.attacks.wire import hpack
from conformance.attacks.wire.http1 import Address

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
ACK, END_STREAM, END_HEADERS = 1, 1, 4
CANCEL = (8).to_bytes(4, "big")
MAX_FRAME_BYTES = 16_384
START_WINDOW = 65_535
_INITIAL_WINDOW = 4  # the setting


@dataclass(frozen=True)
class Frame:
    """A received frame; `headers` are those of a complete header block that ends with this frame."""

    kind: int
    flags: int
    stream: int
    payload: bytes
    headers: tuple[tuple[str, str], ...] = ()


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """Return the bytes of a frame."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def is_goaway(received: Frame) -> bool:
    """Return True if the frame closes the connection."""
    return received.kind == GOAWAY


def ends(stream: int) -> Callable[[Frame], bool]:
    """Return a predicate that is True for a frame that ends the stream, or the connection."""
    return lambda received: (
        is_goaway(received)
        or (
            received.stream == stream
            and (received.kind == RESET or (received.kind in {DATA, HEADERS} and bool(received.flags & END_STREAM)))
        )
    )


class Connection:
    """A connection to a server that speaks HTTP/2 without an upgrade. Settings and pings of the server are answered."""

    def __init__(self, address: Address, timeout_s: float, settings: bytes = b"") -> None:
        self._socket = socket.create_connection(address, timeout_s)
        self._timeout_s = timeout_s
        self._decoder = hpack.Decoder()
        self._unread, self._block = b"", b""
        self.received: list[Frame] = []
        self.windows: dict[int, int] = {0: START_WINDOW}
        self.initial_window = START_WINDOW
        self.is_closed = False
        self.send(PREFACE + frame(SETTINGS, payload=settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, content: bytes) -> None:
        """Send bytes; if the server has closed the connection, note it."""
        try:
            self._socket.settimeout(self._timeout_s)
            self._socket.sendall(content)
        except OSError:
            self.is_closed = True

    def begin(self, stream: int, headers: hpack.Headers, *, is_whole: bool = False) -> None:
        """Send the headers of a request."""
        flags = END_HEADERS | (END_STREAM if is_whole else 0)
        self.send(frame(HEADERS, flags, stream, hpack.encoded(headers)))
        self.windows.setdefault(stream, self.initial_window)

    def send_body(self, stream: int, content: bytes) -> None:
        """Send a request's body as the server's windows allow, until the stream or the connection ends."""
        at, is_over = 0, ends(stream)
        while not self.is_closed and not any(map(is_over, self.received)):
            size = min(len(content) - at, self.windows[0], self.windows[stream], MAX_FRAME_BYTES)
            if size > 0 or at == len(content):
                is_last = at + size == len(content)
                self.send(frame(DATA, END_STREAM if is_last else 0, stream, content[at : at + size]))
                at += size
                self.windows[0] -= size
                self.windows[stream] -= size
                if is_last:
                    return
            elif not self._read(self._timeout_s):
                return

    def until(self, is_wanted: Callable[[Frame], bool], timeout_s: float | None = None) -> Frame | None:
        """Return the first frame that fulfils the condition, or None if the connection ends or the time is over."""
        deadline = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        seen = 0
        while True:
            for received in self.received[seen:]:
                if is_wanted(received):
                    return received
            seen = len(self.received)
            left = deadline - time.monotonic()
            if left <= 0 or not self._read(left):
                return None

    def _read(self, timeout_s: float) -> bool:
        """Read once and parse complete frames. Return False at the end of the connection or of the time."""
        self._socket.settimeout(max(timeout_s, 0.001))
        try:
            received = self._socket.recv(65536)
        except TimeoutError:
            return False
        except OSError:
            received = b""
        if not received:
            self.is_closed = True
            return False
        self._unread += received
        if not self.received and self._unread.startswith(b"HTTP/1"):  # an error from a server that has no HTTP/2
            self.is_closed = True
            return False
        while len(self._unread) >= 9 and len(self._unread) >= 9 + int.from_bytes(self._unread[:3], "big"):
            size = int.from_bytes(self._unread[:3], "big")
            stream = int.from_bytes(self._unread[5:9], "big") & 0x7FFFFFFF
            self._accept(self._unread[3], self._unread[4], stream, self._unread[9 : 9 + size])
            self._unread = self._unread[9 + size :]
        return True

    def _accept(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        headers: tuple[tuple[str, str], ...] = ()
        if kind in {HEADERS, CONTINUATION}:
            self._block += payload
            if flags & END_HEADERS:
                headers, self._block = tuple(self._decoder.headers(self._block)), b""
        elif kind == WINDOW_UPDATE:
            increment = int.from_bytes(payload, "big")
            self.windows[stream] = self.windows.get(stream, self.initial_window) + increment
        elif kind == SETTINGS and not flags & ACK:
            self._apply(payload)
            with contextlib.suppress(OSError):
                self._socket.sendall(frame(SETTINGS, ACK))
        elif kind == PING and not flags & ACK:
            with contextlib.suppress(OSError):
                self._socket.sendall(frame(PING, ACK, 0, payload))
        self.received.append(Frame(kind, flags, stream, payload, headers))

    def _apply(self, settings: bytes) -> None:
        for at in range(0, len(settings), 6):
            if int.from_bytes(settings[at : at + 2], "big") == _INITIAL_WINDOW:
                window = int.from_bytes(settings[at + 2 : at + 6], "big")
                for stream in self.windows.keys() - {0}:
                    self.windows[stream] += window - self.initial_window
                self.initial_window = window
