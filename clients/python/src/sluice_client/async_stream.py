"""The event stream of the asynchronous client."""

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
    """The events of one answer. The first read starts the call; leaving the `async with` block stops the generation.

    Reading raises SluiceError. A broken stream is resumed where it broke, for up to `resume_timeout`.
    """

    def __init__(
        self,
        begin: Callable[[Any, float], Any],
        request: Callable[[], Awaitable[Any]],
        timeout: float,
        resume_timeout: float,
        text: Callable[[E], str],
    ) -> None:
        """`begin` starts a call, given a request and the seconds that are left for it."""
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
        """Yield the text of the first choice, piece by piece."""
        async for event in self._events:
            if piece := self._text(event):
                yield piece

    def cancel(self) -> None:
        """Stop the generation. A pending read of the stream raises this package's CancelledError."""
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
                call.cancel()  # gRPC neither collects nor cancels an abandoned call

    def _open(self, request: Any, until: float) -> Any:
        call = self._call = self._begin(request, max(0.0, until - time.monotonic()))
        if self._cancelled.is_set():
            call.cancel()
        return call

    def _report_cancelled(self) -> None:
        """Raise CancelledError if the stream was cancelled, rather than the task that reads it."""
        if self._cancelled.is_set() and not _is_task_cancelled():
            raise cancelled() from None

    async def _wait(self, pause: float | None, until: float) -> bool:
        """Pause, then return True if the stream may be resumed. Raise CancelledError if it was cancelled meanwhile."""
        if pause is None or time.monotonic() + pause > until:
            return False
        try:
            await asyncio.wait_for(self._cancelled.wait(), pause)
        except TimeoutError:
            return True
        raise cancelled() from None


def _is_task_cancelled() -> bool:
    """Return True if the reading task itself is being cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
