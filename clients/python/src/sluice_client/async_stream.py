"""A stream for callers on an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Generic, TypeVar

import grpc

from sluice_client.errors import cancelled, decode
from sluice_client.resuming import Received

E = TypeVar("E")


class AsyncStream(Generic[E]):
    """The events of one answer. It begins with the first read, and leaving its `async with` block stops the generation.

    Reading raises SluiceError. A stream that breaks goes on where it broke, as long as `resume_timeout` allows.
    """

    def __init__(
        self,
        begin: Callable[[Any, float], Any],
        request: Callable[[], Awaitable[Any]],
        timeout: float,
        resume_timeout: float,
        text: Callable[[E], str],
    ) -> None:
        """`begin` makes a call of a request and the seconds that are left for it."""
        self._begin = begin
        self._text = text
        self._call: Any = None
        self._cancelled = asyncio.Event()
        self._events = self._read(request, timeout, resume_timeout)

    def __aiter__(self) -> AsyncIterator[E]:
        return self._events

    async def __anext__(self) -> E:
        return await anext(self._events)

    async def __aenter__(self) -> AsyncStream[E]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cancel()
        await self._events.aclose()

    async def text(self) -> AsyncIterator[str]:
        """The text of the first choice, piece by piece."""
        async for event in self._events:
            if piece := self._text(event):
                yield piece

    def cancel(self) -> None:
        """Stop the generation. Who reads the stream meanwhile gets this package's CancelledError."""
        self._cancelled.set()
        if self._call is not None:
            self._call.cancel()

    async def _read(
        self, request: Callable[[], Awaitable[Any]], timeout: float, resume_timeout: float
    ) -> AsyncGenerator[E, None]:
        until = time.monotonic() + timeout
        received: Received[E] = Received(await request(), resume_timeout)
        while True:
            call = self._open(received.rest(), until)
            try:
                async for event in call:
                    for each in received.take(event):
                        yield each
            except asyncio.CancelledError:
                self._report_cancelled()
                raise
            except grpc.RpcError as failure:
                error = decode(failure)
                if not await self._wait(received.pause(error), until):
                    for each in received.left():
                        yield each
                    raise error from None
            else:
                for each in received.left():
                    yield each
                return
            finally:
                call.cancel()  # gRPC never collects a call that is left, nor cancels it

    def _open(self, request: Any, until: float) -> Any:
        call = self._call = self._begin(request, max(0.0, until - time.monotonic()))
        if self._cancelled.is_set():
            call.cancel()
        return call

    def _report_cancelled(self) -> None:
        """Raise CancelledError where it is the stream that was cancelled, and not its reader."""
        if self._cancelled.is_set() and not _is_task_cancelled():
            raise cancelled() from None

    async def _wait(self, pause: float | None, until: float) -> bool:
        """Whether the stream may be taken up again, after a pause; CancelledError if it was cancelled in it."""
        if pause is None or time.monotonic() + pause > until:
            return False
        try:
            await asyncio.wait_for(self._cancelled.wait(), pause)
        except TimeoutError:
            return True
        raise cancelled() from None


def _is_task_cancelled() -> bool:
    """Whether somebody wants the reader itself to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
