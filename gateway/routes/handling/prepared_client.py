"""Calls of the service that first need other information from it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from gateway.upstream.caller import Caller
from gateway.upstream.resuming_client import ResumingClient


@dataclass(frozen=True, slots=True)
class PreparedClient:
    """A client for generation. `prepare` may change a request, or reject it by raising Failure."""

    client: ResumingClient
    prepare: Callable[[Any, Caller], Awaitable[None]]

    async def call(self, request: Message, caller: Caller, affinity: str = "") -> Any:
        """Prepare the request, then call like `ServiceClient.call`."""
        await self.prepare(request, caller)
        return await self.client.call(request, caller, affinity)

    @contextlib.asynccontextmanager
    async def stream(
        self, request: Message, caller: Caller, affinity: str = ""
    ) -> AsyncIterator[AsyncIterator[Message]]:
        """Prepare the request, then stream like `ServiceClient.stream`."""
        await self.prepare(request, caller)
        async with self.client.stream(request, caller, affinity) as events:
            yield events
