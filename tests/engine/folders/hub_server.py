"""A model hub with one model: the few endpoints that huggingface_hub needs for a download, with a delay."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

LARGE = 20_000_000  # bytes; the library reads ten million at a time
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """The handler of a hub. Each hub has a subclass of its own."""

    protocol_version = "HTTP/1.1"
    model = ""
    files: ClassVar[Mapping[str, bytes]] = {}
    pause_s = 0.0

    def do_HEAD(self) -> None:
        self._answer(sends=False)

    def do_GET(self) -> None:
        self._answer(sends=True)

    def _answer(self, *, sends: bool) -> None:
        path = urlsplit(self.path).path
        data = self.files.get(path.rpartition("/")[2])
        if path in {f"/api/models/{self.model}", f"/api/models/{self.model}/revision/main"}:
            names = [{"rfilename": name} for name in self.files]
            self._send(json.dumps({"id": self.model, "sha": COMMIT, "siblings": names}).encode(), sends=sends)
        elif path.startswith(f"/api/models/{self.model}/tree/"):
            entries = [
                {"type": "file", "path": name, "size": len(each), "oid": digest(each)}
                for name, each in self.files.items()
            ]
            self._send(json.dumps(entries).encode(), sends=sends)
        elif path.startswith(f"/{self.model}/resolve/") and data is not None:
            self._send(data, sends=sends)
        else:
            self.send_response(404)
            self.send_header("x-error-code", "RepoNotFound")
            self.send_header("content-length", "0")
            self.end_headers()

    def _send(self, data: bytes, *, sends: bool) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.send_header("etag", f'"{digest(data)}"')
        self.send_header("x-repo-commit", COMMIT)
        self.end_headers()
        step = max(1, len(data) if len(data) < LARGE else len(data) // 64 + 1)
        for start in range(0, len(data) if sends else 0, step):
            if step < len(data):
                time.sleep(self.pause_s)
            self.wfile.write(data[start : start + step])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Do nothing."""


def digest(data: bytes) -> str:
    """Return the name that the hub gives to a file's content."""
    return hashlib.sha1(data).hexdigest()  # noqa: S324  not used for security


@contextmanager
def serving_hub(model: str, folder: Path, pause_s: float = 0.0) -> Iterator[str]:
    """Serve a folder's files, and yield the URL for HF_ENDPOINT. Large files are sent in 64 pieces with pauses."""
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    handler = type("OneHub", (Hub,), {"model": model, "files": files, "pause_s": pause_s})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
