"""A server that trusts everything: it answers any bytes, contacts every URL, and lets every web page in."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import urllib.request
from types import TracebackType
from typing import Self

ANSWER = {
    "id": "a",
    "object": "chat.completion",
    "created": 1,
    "model": "careless",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    "data": [{"id": "careless"}],
}


class Careless:
    """Listens on a free loopback port, with a thread for each connection."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._answer_all, args=(connection,), daemon=True).start()

    def _answer_all(self, connection: socket.socket) -> None:
        """Answer whatever comes: each empty line ends a request, and its body is what arrived with it."""
        unread = b""
        with connection, contextlib.suppress(OSError):
            while received := connection.recv(2**20):
                unread += received
                while b"\r\n\r\n" in unread:
                    head, _, unread = unread.partition(b"\r\n\r\n")
                    length = re.search(rb"\r\ncontent-length: (\d+)\r\n", head.lower() + b"\r\n")
                    size = int(length[1]) if length and len(length[1]) < 8 else 0
                    while len(unread) < size and (received := connection.recv(2**20)):
                        unread += received
                    body, unread = unread[:size], unread[size:]
                    connection.sendall(self._answer(head, body))

    def _answer(self, head: bytes, body: bytes) -> bytes:
        """Return an answer with 200, after contacting every URL in the request."""
        for url in re.findall(r"http://[^\s\"'\\<>]+:\d+/[^\s\"'\\<>]*", (head + b" " + body).decode("latin-1")):
            with contextlib.suppress(OSError, ValueError), urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310
                answer.read()
        lines = [b"HTTP/1.1 200 OK", b"access-control-allow-credentials: true"]
        origin = re.search(rb"\r\norigin: ([^\r]*)", head, re.IGNORECASE)
        if origin:
            lines.append(b"access-control-allow-origin: " + origin[1])
        content = json.dumps(ANSWER).encode()
        if b"passwd" in head + body:
            content = b'{"error": "root:x:0:0 Traceback"}'
        lines += [b"content-type: application/json", b"content-length: %d" % len(content), b"", content]
        return b"\r\n".join(lines)
