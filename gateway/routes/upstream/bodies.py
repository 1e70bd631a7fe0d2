"""Read request bodies with limits, so that callers without a key or with many requests can't fill the memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import Receive, Scope

from gateway.dialects.seam.failure import Failure, Reason
from gateway.http.body import body_parts, declared_length
from gateway.http.headers import headers_of
from gateway.http.memory_shares import Holding, MemoryShares
from gateway.settings.config import Settings
from gateway.upstream.caller import Caller

_SMALL: Final = 64 * 1024  # bytes, of any body


class BodyReader:
    """Reads request bodies; those above 64 KiB or of unknown length need a valid credential and a share of memory.

    Bytes above 64 KiB of incomplete bodies are shared among callers (`max_incoming_bytes`). Each such body counts at
    least as a 1,024th of the memory, because it occupies one of the connections that Envoy may open. Callers with a
    credential are distinguished by it, others by their address.
    """

    def __init__(self, require_key: Callable[[Caller], Awaitable[None]], settings: Settings) -> None:
        """`require_key` raises Failure (401) for an invalid credential."""
        self._require_key = require_key
        self._max_bytes = settings.max_body_bytes
        self._timeout_s = settings.body_timeout_s
        self._shares = MemoryShares(settings.max_incoming_bytes)

    async def read(self, scope: Scope, receive: Receive, caller: Caller) -> bytes:
        """Return the complete body. Raise Failure (401, 408, 413, 415, 429), and ClientDisconnected."""
        declared = declared_length(headers_of(scope), self._max_bytes)
        with self._shares.hold(caller.authorization or _address(scope)) as holding:
            if declared is None or declared > _SMALL:
                holding.grow(self._shares.smallest)
                await self._require_key(caller)
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await self._received(receive, holding)
            except TimeoutError:
                text = f"the body has not arrived within the limit of {self._timeout_s:g} s"
                raise Failure(Reason.REQUEST_TIMEOUT, text) from None

    async def _received(self, receive: Receive, holding: Holding) -> bytes:
        """Receive the body, and hold the memory for it."""
        parts: list[bytes] = []
        num_bytes = 0
        async for part in body_parts(receive, self._max_bytes):
            parts.append(part)
            num_bytes += len(part)
            if (more := num_bytes - _SMALL - holding.num_bytes) > 0:
                holding.grow(more)
        return b"".join(parts)


class NoBody:
    """Reads the bodies of requests that have none: whatever they have is ignored."""

    async def read(self, scope: Scope, receive: Receive, caller: Caller) -> bytes:  # noqa: ARG002  a BodyReader's
        """Return an empty body."""
        return b""


def _address(scope: Scope) -> str:
    return str(scope["client"][0]) if scope.get("client") else ""
