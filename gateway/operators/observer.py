"""Observe every request: its id, span, duration and log line.

The request id is in `scope["state"]` and in every response. Unhandled exceptions become error responses here. It is a
pure ASGI middleware, so that endpoints still receive a client's disconnect.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Final

from opentelemetry import trace
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.dialects.seam.error_response import ErrorResponse
from gateway.dialects.seam.failure import Failure
from gateway.http.body import ClientDisconnected
from gateway.http.cost import collect_cost
from gateway.http.headers import headers_of
from gateway.http.rate_limits import collect_rate_limits
from gateway.http.reply import send_error_response, to_failure
from gateway.operators.drain import shutdown_failure
from gateway.telemetry import attributes as names
from gateway.telemetry.telemetry import Telemetry
from process.network.plain_text import PlainTextCredentials
from process.telemetry.attributes import ERROR_TYPE, REQUEST_ID

CALLER_LEFT_STATUS: Final = 499  # in the log and in metrics only

_LOGGER = logging.getLogger(__name__)
_UNLOGGED: Final = frozenset(
    {"/livez", "/healthz", "/readyz", "/health", "/ping", "/metrics", "/status.json"}
)  # polled every second; not traced
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"})
_MAX_REQUEST_ID_LENGTH: Final = 128


class RequestObserver:
    """An ASGI middleware. `error_response` returns an unhandled error in the dialect of the request.

    A client that reads nothing of its response for `stall_timeout_s` seconds is treated as disconnected.
    """

    def __init__(
        self,
        app: ASGIApp,
        telemetry: Telemetry,
        error_response: Callable[[Scope, Failure], ErrorResponse],
        stall_timeout_s: float,
    ) -> None:
        self._app = app
        self._telemetry = telemetry
        self._error_response = error_response
        self._credentials = PlainTextCredentials()
        self._stall_timeout_s = stall_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = headers_of(scope)
        peer = scope["client"][0] if scope.get("client") else ""
        self._credentials.check(peer, headers, is_encrypted=scope["scheme"] == "https")
        exchange = _Exchange(send, _request_id(headers), self._stall_timeout_s)
        scope["state"]["request_id"] = exchange.request_id
        if scope["path"] in _UNLOGGED:
            await self._answer(scope, receive, exchange)
            return
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        shared: dict[str, str | int] = {names.HTTP_METHOD: method, names.URL_SCHEME: scope["scheme"]}
        began = time.perf_counter()
        self._telemetry.active_requests.add(1, shared)
        with self._telemetry.tracer.start_as_current_span(
            method,
            context=self._telemetry.extract(headers),
            kind=trace.SpanKind.SERVER,
            attributes={
                **shared,
                names.URL_PATH: scope["path"],
                names.USER_AGENT: headers.get("user-agent", ""),
                REQUEST_ID: exchange.request_id,
            },
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                await self._answer(scope, receive, exchange)
            finally:
                duration_s = time.perf_counter() - began
                self._telemetry.active_requests.add(-1, shared)
                attributes = shared | {names.HTTP_STATUS: exchange.status}
                if (route := scope.get("route")) is not None:
                    attributes[names.HTTP_ROUTE] = route.path
                    span.update_name(f"{method} {route.path}")
                if exchange.status >= CALLER_LEFT_STATUS:
                    attributes[ERROR_TYPE] = str(exchange.status)
                    span.set_status(trace.StatusCode.ERROR)
                span.set_attributes(attributes)
                self._telemetry.request_duration.record(duration_s, attributes)
                fields = {
                    "request_id": exchange.request_id,
                    "method": method,
                    "path": scope["path"],
                    "status": exchange.status,
                    "duration_s": round(duration_s, 6),
                }
                _LOGGER.info("request", extra={"fields": fields})

    async def _answer(self, scope: Scope, receive: Receive, exchange: _Exchange) -> None:
        """Run the application, and send an error response for exceptions that it raises."""
        try:
            await self._app(scope, receive, exchange.send)
        except ClientDisconnected:
            exchange.status = CALLER_LEFT_STATUS
        except asyncio.CancelledError:  # the drain time has ended; uvicorn would log it with a traceback
            if not exchange.is_started:
                failure = shutdown_failure()
                await send_error_response(exchange.send, self._error_response(scope, failure), failure)
        except Exception as error:
            failure = to_failure(error, exchange.request_id)
            if exchange.is_started:  # too late for an error response: the server closes the connection
                exchange.status = failure.status
                raise
            await send_error_response(exchange.send, self._error_response(scope, failure), failure)


class _Exchange:
    """One request's response as it is sent, with headers for the request id, rate limits and cost."""

    def __init__(self, send: Send, request_id: str, stall_timeout_s: float) -> None:
        self._send = send
        self._stall_timeout_s = stall_timeout_s
        self.request_id = request_id
        self.status = 500  # until a response starts
        self.is_started = False
        self._rate_limits = collect_rate_limits()
        self._cost = collect_cost()

    async def send(self, message: Message) -> None:
        """Send a message of the application. Raise ClientDisconnected if the client reads nothing for too long."""
        if message["type"] == "http.response.start":
            self.is_started = True
            self.status = message["status"]
            request_id_header = (b"x-request-id", self.request_id.encode())
            message["headers"] = [
                *message.get("headers", ()),
                request_id_header,
                *self._rate_limits.items(),
                *self._cost.header(),
            ]
        try:
            async with asyncio.timeout(self._stall_timeout_s):
                await self._send(message)
        except TimeoutError:
            raise ClientDisconnected from None


def _request_id(headers: Mapping[str, str]) -> str:
    """Return the client's or Envoy's request id if it is valid in headers and logs, otherwise a new one."""
    given = headers.get("x-request-id", "")
    if given and len(given) <= _MAX_REQUEST_ID_LENGTH and given.isascii() and given.isprintable():
        return given
    return str(uuid.uuid4())
