"""Drain the gateway: health checks fail first, then new requests are rejected until the running requests have ended.

`Drain` has the phase and the number of running requests; the middleware `DrainGate` counts and rejects requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.dialects.seam.error_response import ErrorResponse
from gateway.dialects.seam.failure import Failure, Reason
from gateway.http.reply import send_error_response

OPERATORS_PATHS: Final = frozenset({"/livez", "/healthz", "/readyz", "/health", "/ping", "/metrics", "/status.json"})
RETRY_AFTER_S: Final = 1.0


def shutdown_failure() -> Failure:
    """Return the failure of requests that the gateway rejects or ends because it stops."""
    return Failure(Reason.DRAINING, "the server is shutting down", retry_after_s=RETRY_AFTER_S)


class GatewayPhase(enum.Enum):
    """The phases of the gateway, in order; no phase is entered twice."""

    SERVING = "serving"
    LEAVING = "leaving"  # health and readiness fail, so that load balancers use other replicas; requests are served
    DRAINING = "draining"  # new requests are rejected, running ones continue


class Drain:
    """The gateway's phase, and the number of running requests. For one event loop."""

    def __init__(self) -> None:
        self.phase = GatewayPhase.SERVING
        self.num_running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def drain(self, delay_s: float, timeout_s: float) -> None:
        """Fail health checks, keep serving for `delay_s`, then return when no request runs, or after `timeout_s`."""
        self.phase = GatewayPhase.LEAVING
        await asyncio.sleep(delay_s)
        self.phase = GatewayPhase.DRAINING
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()

    def begin(self) -> None:
        """Count a request that has started."""
        self.num_running += 1
        self._idle.clear()

    def end(self) -> None:
        """Count a request that has ended."""
        self.num_running -= 1
        if not self.num_running:
            self._idle.set()


class DrainGate:
    """Counts an application's requests. Once the drain begins, each connection is closed after its next response."""

    def __init__(self, app: ASGIApp, drain: Drain, error_response: Callable[[Scope, Failure], ErrorResponse]) -> None:
        """Create the middleware; `error_response` returns an error in the dialect of the request."""
        self._app = app
        self._drain = drain
        self._error_response = error_response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPERATORS_PATHS:
            await self._app(scope, receive, send)
            return

        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start" and self._drain.phase is not GatewayPhase.SERVING:
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        if self._drain.phase is GatewayPhase.DRAINING:
            failure = shutdown_failure()
            await send_error_response(closing, self._error_response(scope, failure), failure)
            return
        self._drain.begin()
        try:
            await self._app(scope, receive, closing)
        finally:
            self._drain.end()
