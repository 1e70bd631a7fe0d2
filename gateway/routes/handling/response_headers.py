"""Response headers that only one dialect sends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.rate_limits import current_rate_limits

SendHeaders: TypeAlias = Callable[[str, Mapping[bytes, bytes]], Iterable[tuple[bytes, bytes]]]
"""Return a dialect's own headers for a request id and the state of the caller's rate limits."""


def send_no_headers(request_id: str, limits: Mapping[bytes, bytes]) -> tuple[()]:  # noqa: ARG001  a SendHeaders
    """Return no additional headers."""
    return ()


@dataclass(frozen=True, slots=True)
class WithResponseHeaders:
    """An ASGI application that adds the result of `headers` to the responses of `app`."""

    app: ASGIApp
    headers: SendHeaders

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                additional = self.headers(scope["state"]["request_id"], current_rate_limits())
                message["headers"] = [*message.get("headers", ()), *additional]
            await send(message)

        await self.app(scope, receive, send_with_headers)
