"""The event stream of the synchronous client."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar

import grpc

from sluice_client.errors import SluiceError, cancelled, decode
from sluice_client.model_choice import ModelChoice
from sluice_client.streams.resuming import ReceivedEvents

EventT = TypeVar("EventT")


class Stream(Generic[EventT]):
    """The events of one answer. The first read starts the call; leaving the `with` block stops the generation.

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
        self._cancelled = threading.Event()
        self._events = self._read(timeout, resume_timeout)

    def __iter__(self) -> Iterator[EventT]:
        return self._events

    def __next__(self) -> EventT:
        return next(self._events)

    def __enter__(self) -> Stream[EventT]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cancel()
        self._events.close()

    def text(self) -> Iterator[str]:
        """Yield the text of the first choice, piece by piece."""
        for event in self._events:
            if piece := self._text(event):
                yield piece

    def cancel(self) -> None:
        """Stop the generation, from any thread. A pending read of the stream raises CancelledError."""
        self._cancelled.set()
        if self._call is not None:
            self._call.cancel()

    def _read(self, timeout: float, resume_timeout: float) -> Generator[EventT, None, None]:
        deadline = time.monotonic() + timeout
        received: ReceivedEvents[EventT] = ReceivedEvents(self._choice.request, resume_timeout)
        while True:
            self._choose_model(deadline)
            call = self._open(received.next_request(), deadline)
            try:
                for event in call:
                    yield from received.take(event)
            except grpc.RpcError as failure:
                error = decode(failure)
                if not self._may_continue(received, error, deadline):
                    yield from received.release_held()
                    raise error from None
            else:
                yield from received.release_held()
                return
            finally:
                call.cancel()  # no effect if the call has ended

    def _choose_model(self, deadline: float) -> None:
        """Set the model of the first request, if it names none."""
        if self._choice.choose():
            return
        call = self._hold(self._list_models(max(0.0, deadline - time.monotonic())))
        try:
            listed = call.result()
        except grpc.FutureCancelledError:
            raise cancelled() from None
        except grpc.RpcError as failure:
            raise decode(failure) from None
        self._choice.choose_from(listed.models)

    def _may_continue(self, received: ReceivedEvents[EventT], error: SluiceError, deadline: float) -> bool:
        """Return True if the stream is continued by another call, after a delay, or False if `error` is final."""
        if not received.has_begun and self._choice.renew(error):
            return True
        return self._wait(received.resume_delay(error), deadline)

    def _open(self, request: Any, deadline: float) -> Any:
        return self._hold(self._begin(request, max(0.0, deadline - time.monotonic())))

    def _hold(self, call: Any) -> Any:
        """Return a call that `cancel` ends."""
        self._call = call
        if self._cancelled.is_set():
            call.cancel()
        return call

    def _wait(self, delay: float | None, deadline: float) -> bool:
        """Return True after `delay` seconds, or False at once if the stream may not be resumed.

        Raise CancelledError if the stream is cancelled meanwhile.
        """
        if delay is None or time.monotonic() + delay > deadline:
            return False
        if self._cancelled.wait(delay):
            raise cancelled() from None
        return True
