"""An HTTP server of images, valid and invalid, on the loopback address."""

from __future__ import annotations

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, files: dict[str, tuple[str, bytes]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.requests: list[str] = []
        self.leaving = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        if self.path.startswith("/redirect?to="):
            self._begin(302, location=self.path.partition("=")[2])
        elif self.path in {"/slow", "/endless"}:
            self._begin(200, content_type="image/png")
            while not self.server.leaving.wait(0.05 if self.path == "/slow" else 0):
                self.wfile.write(b"x" * (1 if self.path == "/slow" else 65536))
        elif (found := self.server.files.get(self.path)) is not None:
            self._begin(200, content_type=found[0], content_length=str(len(found[1])))
            self.wfile.write(found[1])
        else:
            self.send_error(404)

    def _begin(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        pass

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # the client has disconnected
            super().handle()


class PictureServer:
    """A server of `files` by path, each a type and bytes.

    `/slow` and `/endless` never end, and `/redirect?to=` redirects.
    """

    def __init__(self, files: dict[str, tuple[str, bytes]]) -> None:
        self._server = _Server(files)
        self.requests = self._server.requests
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.leaving.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
