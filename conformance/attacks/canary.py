"""A loopback server that no safe server contacts."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

CONTENT = b"canary"


class Canary:
    """Accepts connections on a free loopback port, answers each with a few bytes, and records its first line."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._visits: list[str] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def url(self, host: str = "127.0.0.1", scheme: str = "http", path: str = "/image.png") -> str:
        """Return a URL of this server under a name of the loopback address."""
        return f"{scheme}://{host}:{self.port}{path}"

    def visits(self) -> list[str]:
        """Return the first lines received since the last call."""
        found, self._visits = self._visits, []
        return found

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # shut down
                return
            with connection:
                connection.settimeout(1)
                line = b""
                with contextlib.suppress(OSError):
                    line = connection.recv(4096).split(b"\r\n")[0]
                # Before the answer: the server may answer the attack as soon as it has this one.
                self._visits.append(line.decode("latin-1") or "a connection without a request")
                head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(CONTENT)}\r\nconnection: close\r\n\r\n"
                with contextlib.suppress(OSError):
                    connection.sendall(head.encode() + CONTENT)
