"""The event stream of the synchronous client."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar

import grpc

from sluice_client.errors import cancelled, decode
from sluice_client.resuming import Received

E = TypeVar("E")


class Stream(Generic[E]):
    """The events of one answer. The first read starts the call; leaving the `with` block stops the generation.

    Reading raises SluiceError. A broken stream is resumed where it broke, for up to `resume_timeout`.
    """

    def __init__(
        self,
        begin: Callable[[Any, float], Any],
        request: Callable[[], Any],
        timeout: float,
        resume_timeout: float,
        text: Callable[[E], str],
    ) -> None:
        """`begin` starts a call, given a request and the seconds that are left for it."""
        self._begin = begin
        self._text = text
        self._call: Any = None
        self._cancelled = threading.Event()
        self._events = self._read(request, timeout, resume_timeout)

    def __iter__(self) -> Iterator[E]:
        return self._events

    def __next__(self) -> E:
        return next(self._events)

    def __enter__(self) -> Stream[E]:
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

    def _read(self, request: Callable[[], Any], timeout: float, resume_timeout: float) -> Generator[E, None, None]:
        until = time.monotonic() + timeout
        received: Received[E] = Received(request(), resume_timeout)
        while True:
            call = self._open(received.rest(), until)
            try:
                for event in call:
                    yield from received.take(event)
            except grpc.RpcError as failure:
                error = decode(failure)
                if not self._wait(received.pause(error), until):
                    yield from received.left()
                    raise error from None
            else:
                yield from received.left()
                return
            finally:
                call.cancel()  # no effect if the call has ended

    def _open(self, request: Any, until: float) -> Any:
        call = self._call = self._begin(request, max(0.0, until - time.monotonic()))
        if self._cancelled.is_set():
            call.cancel()
        return call

    def _wait(self, pause: float | None, until: float) -> bool:
        """Pause, then return True if the stream may be resumed. Raise CancelledError if it was cancelled meanwhile."""
        if pause is None or time.monotonic() + pause > until:
            return False
        if self._cancelled.wait(pause):
            raise cancelled() from None
        return True
