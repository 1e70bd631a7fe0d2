"""Streams of requests: one that breaks is distinguished from one that ends, and a rejected one is read to its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol, TypeVar

from google.protobuf.message import Message
from grpc import aio

from service.calls.call import current_call
from service.generation.errors import ServiceError

_MAX_BYTES: Final = 16 << 20
_MAX_S: Final = 1.0

Request = TypeVar("Request", bound=Message)


class Sending(Protocol):
    """The context of a call, which can send its initial metadata."""

    async def send_initial_metadata(self, initial_metadata: tuple[tuple[str, str | bytes], ...], /) -> None: ...


async def complete_stream(messages: AsyncIterator[Request], context: Sending) -> AsyncGenerator[Request, None]:
    """Yield the messages of a stream that its client ends. Raise CancelledError if its connection breaks instead.

    gRPC's library for Python reports both as the end, and a break as a cancellation a moment later. The call's initial
    metadata are sent at the end, since nothing can be sent on a broken stream.
    """
    async for message in messages:
        yield message
    call = current_call()
    try:
        await context.send_initial_metadata(() if call is None else call.metadata)
    except aio.InternalError as error:
        raise asyncio.CancelledError from error
    if call is not None:
        call.has_sent_metadata = True


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
