"""The rest of a stream of requests that is rejected before its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from google.protobuf.message import Message

from service.generation.errors import ServiceError

_MAX_BYTES: Final = 16 << 20
_MAX_S: Final = 1.0


@asynccontextmanager
async def read_after_rejection(messages: AsyncIterator[Message]) -> AsyncIterator[None]:
    """If the block raises ServiceError, ignore what the client still sends, within limits, before the call ends.

    gRPC's library for Python reports a write that fails as an internal error, and loses the status of the call.
    """
    try:
        yield
    except ServiceError:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MAX_S):
                num_bytes = 0
                async for message in messages:
                    num_bytes += message.ByteSize()
                    if num_bytes > _MAX_BYTES:
                        break
        raise
