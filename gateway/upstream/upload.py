"""A call whose requests are streamed, and its status."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Final

import grpc
from google.protobuf.message import Message

_FAILED: Final = grpc.StatusCode.INTERNAL  # the status of a write that fails
_STATUS_WAIT_S: Final = 1.0  # at most, for the status of a call whose write has failed
_STATUS_POLL_S: Final = 0.001


class Upload:
    """A call whose requests are streamed.

    If the service ends the call during a write, gRPC reports INTERNAL: it replaces the status that has arrived, or the
    status that arrives replaces it.
    """

    def __init__(self, call: Any) -> None:
        self._call = call
        self._ended: grpc.aio.AioRpcError | None = None  # the first status
        call.add_done_callback(self._set_ended)

    async def write(self, message: Message) -> None:
        """Send a message. If the service has ended the call, its error is raised."""
        try:
            await self._call.write(message)
        except asyncio.InvalidStateError:
            await self._call
        except grpc.aio.AioRpcError:
            if self._ended is not None and self._ended.code() is not _FAILED:
                raise self._ended from None
            await self._until_other_status()
            await self._call

    async def answer(self) -> Any:
        """End the stream, and return the answer."""
        await self._call.done_writing()
        return await self._call

    def _set_ended(self, call: Any) -> None:
        code, trailing, details = map(_value, (call.code(), call.trailing_metadata(), call.details()))
        self._ended = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, details)

    async def _until_other_status(self) -> None:
        """Return when the status of the call is no longer that of a failed write."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STATUS_WAIT_S):
                while await self._call.code() is _FAILED:  # noqa: ASYNC110  gRPC has no event for the second status
                    await asyncio.sleep(_STATUS_POLL_S)


def _value(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that doesn't wait: those of a call that has ended."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError
