"""The event stream of the asynchronous client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from types import TracebackType
from typing import Any, Generic, TypeVar

import grpc

from sluice_client.errors import SluiceError, cancelled, decode
from sluice_client.model_choice import ModelChoice
from sluice_client.streams.resuming import ReceivedEvents

EventT = TypeVar("EventT")


class AsyncStream(Generic[EventT]):
    """The events of one answer. The first read starts the call; leaving the `async with` block stops the generation.

    Reading raises SluiceError. A broken stream is resumed after the last received event, for up to `resume_timeout`
    seconds. `timeout` is the number of seconds for the whole stream.
    """

    def __init__(
        self,
        begin: Callable[[Any, float], Any],
        list_models: Callable[[float], Any],
        choice: ModelChoice,
        *,
        timeout: float,
        resume_timeout: float,
        text: Callable[[EventT], str],
    ) -> None:
        """`begin` starts a call, given a request message and the seconds that are left for it.

        `list_models` starts a call of ListModels, given its seconds, and `choice` has the first request, whose model is
        chosen if it names none. `text` extracts the text of an event.
        """
        self._begin = begin
        self._list_models = list_models
        self._choice = choice
        self._text = text
        self._call: Any = None
        self._cancelled = asyncio.Event()
        self._events = self._read(timeout, resume_timeout)

    def __aiter__(self) -> AsyncIterator[EventT]:
        return self._events

    async def __anext__(self) -> EventT:
        return await anext(self._events)

    async def __aenter__(self) -> AsyncStream[EventT]:
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

    async def _read(self, timeout: float, resume_timeout: float) -> AsyncGenerator[EventT, None]:
        deadline = time.monotonic() + timeout
        received: ReceivedEvents[EventT] = ReceivedEvents(self._choice.request, resume_timeout)
        while True:
            await self._choose_model(deadline)
            call = self._open(received.next_request(), deadline)
            try:
                async for event in call:
                    for each in received.take(event):
                        yield each
            except asyncio.CancelledError:
                self._raise_if_cancelled()
                raise
            except grpc.RpcError as failure:
                error = decode(failure)
                if not await self._may_continue(received, error, deadline):
                    for each in received.release_held():
                        yield each
                    raise error from None
            else:
                for each in received.release_held():
                    yield each
                return
            finally:
                call.cancel()  # gRPC neither collects nor cancels an abandoned call

    async def _choose_model(self, deadline: float) -> None:
        """Set the model of the first request, if it names none."""
        if self._choice.choose():
            return
        call = self._hold(self._list_models(max(0.0, deadline - time.monotonic())))
        try:
            listed = await call
        except asyncio.CancelledError:
            self._raise_if_cancelled()
            raise
        except grpc.RpcError as failure:
            raise decode(failure) from None
        self._choice.choose_from(listed.models)

    async def _may_continue(self, received: ReceivedEvents[EventT], error: SluiceError, deadline: float) -> bool:
        """Return True if the stream is continued by another call, after a delay, or False if `error` is final."""
        if not received.has_begun and self._choice.renew(error):
            return True
        return await self._wait(received.resume_delay(error), deadline)

    def _open(self, request: Any, deadline: float) -> Any:
        return self._hold(self._begin(request, max(0.0, deadline - time.monotonic())))

    def _hold(self, call: Any) -> Any:
        """Return a call that `cancel` ends."""
        self._call = call
        if self._cancelled.is_set():
            call.cancel()
        return call

    def _raise_if_cancelled(self) -> None:
        """Raise CancelledError if the stream was cancelled, rather than the task that reads it."""
        if self._cancelled.is_set() and not _is_task_cancelled():
            raise cancelled() from None

    async def _wait(self, delay: float | None, deadline: float) -> bool:
        """Return True after `delay` seconds, or False at once if the stream may not be resumed.

        Raise CancelledError if the stream is cancelled meanwhile.
        """
        if delay is None or time.monotonic() + delay > deadline:
            return False
        try:
            await asyncio.wait_for(self._cancelled.wait(), delay)
        except TimeoutError:
            return True
        raise cancelled() from None


def _is_task_cancelled() -> bool:
    """Return True if the reading task itself is being cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
