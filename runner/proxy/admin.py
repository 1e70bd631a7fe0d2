"""Requests to Envoy's admin interface."""

from __future__ import annotations

import socket
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Final

_TIMEOUT_S: Final = 2.0


class EnvoyAdmin:
    """Envoy's admin interface at `address`: host:port, or the absolute path of a Unix socket."""

    def __init__(self, address: str) -> None:
        self._address = address

    @property
    def port(self) -> int | None:
        """The port; None for a Unix socket."""
        return None if self._is_path else int(self._address.rpartition(":")[2])

    def open(self, path: str, method: str = "GET") -> HTTPResponse:
        """Return the response to a request, to be closed by the caller. Raise OSError, also for an error status."""
        connection = _SocketConnection(self._address) if self._is_path else HTTPConnection(self._address)
        connection.timeout = _TIMEOUT_S
        try:
            connection.request(method, path, headers={"connection": "close"})
            answer = connection.getresponse()
        except HTTPException as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
        if answer.status != HTTPStatus.OK:
            answer.close()
            raise OSError(f"HTTP status {answer.status}")
        return answer

    @property
    def _is_path(self) -> bool:
        return self._address.startswith("/")


class _SocketConnection(HTTPConnection):
    """An HTTP connection to a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
