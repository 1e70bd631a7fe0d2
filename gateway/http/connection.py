"""HTTP connections that limit the size of headers and the time until they are complete.

uvicorn limits neither. Behind Envoy, Envoy's limits apply first.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class HttpConnection(HttpToolsProtocol):
    """A connection that is closed with 431 after too large headers, and with 408 after headers that take too long.

    `max_header_bytes` counts names and values, and the target. Until the first request, `timeout_keep_alive` applies.
    """

    max_header_bytes: ClassVar[int]
    headers_timeout_s: ClassVar[float]

    _num_header_bytes = 0
    _num_pending_bytes = 0  # bytes that the parser buffers: received since it last reported progress
    _has_progress = False
    _error = HTTPStatus.BAD_REQUEST
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn declares it
        """Close the connection if no request begins."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._stop_timer()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Reject a header that is too large before it is complete."""
        self._has_progress = False
        super().data_received(data)
        self._num_pending_bytes = 0 if self._has_progress else self._num_pending_bytes + len(data)
        if self._num_pending_bytes > self.max_header_bytes and not self.transport.is_closing():
            self._reject(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Start the timer of the headers."""
        super().on_message_begin()
        self._has_progress = True
        self._num_header_bytes = 0
        self._start_timer()

    def on_url(self, url: bytes) -> None:
        """Count a part of the target."""
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header, or a trailer."""
        super().on_header(name, value)
        self._count(len(name) + len(value))

    def on_headers_complete(self) -> None:
        """Stop the timer. A request must have one Host, which HTTP/1.0 may omit (RFC 9112, 3.2)."""
        self._has_progress = True
        self._stop_timer()
        num_hosts = sum(name == b"host" for name, _ in self.headers)
        if num_hosts > 1 or (num_hosts == 0 and self.parser.get_http_version() != "1.0"):
            raise ValueError  # the parser stops, and the request is rejected
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Note the progress."""
        self._has_progress = True
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """Send the error for a request that the parser rejects; too large headers have a separate status."""
        if self._error is HTTPStatus.BAD_REQUEST:
            self._stop_timer()
            super().send_400_response(msg)
        else:
            self._reject(self._error)

    def _count(self, num_bytes: int) -> None:
        self._has_progress = True
        self._num_header_bytes += num_bytes
        if self._num_header_bytes > self.max_header_bytes:
            self._error = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise ValueError  # the parser stops, and the request is rejected

    def _start_timer(self) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(self.headers_timeout_s, self._on_timeout)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:  # reading is paused until then
            self._start_timer()
        elif not self.transport.is_closing():
            self._reject(HTTPStatus.REQUEST_TIMEOUT)

    def _reject(self, status: HTTPStatus) -> None:
        """Send a plain text error, since the dialect is not known, and close the connection."""
        self._stop_timer()
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            is_late = status is HTTPStatus.REQUEST_TIMEOUT
            limit = f"{self.headers_timeout_s:g} s" if is_late else f"{self.max_header_bytes} bytes"
            text = f"the headers exceed the limit of {limit}\n"
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n"
            head += f"content-length: {len(text)}\r\nconnection: close\r\n\r\n"
            self.transport.write((head + text).encode())
        self.transport.close()


def connection_type(max_header_bytes: int, headers_timeout_s: float) -> type[HttpConnection]:
    """Return the class of connections with these limits."""
    limits = {"max_header_bytes": max_header_bytes, "headers_timeout_s": headers_timeout_s}
    return type("LimitedConnection", (HttpConnection,), limits)
