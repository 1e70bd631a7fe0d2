"""The received events of a stream, and the request that resumes it after a break."""

from __future__ import annotations

import time
from typing import Any, Final, Generic, TypeVar

import grpc

from sluice_client.errors import SluiceError, reason_name
from sluice_client.v1 import error_pb2

E = TypeVar("E")  # the message of a stream's events

_ENGINE_FAILED: Final = reason_name(error_pb2.ERROR_REASON_ENGINE_FAILED)
_MOST_BREAKS: Final = 4  # without an event between them: the request itself may be what breaks the servers
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_RESET: Final = frozenset({grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN})  # a connection that broke
_PASSING: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED})  # no server, or overload


class Received(Generic[E]):
    """The events of one stream in the order of their positions, over all calls that it takes."""

    def __init__(self, request: Any, timeout: float) -> None:
        self._request = request
        self._timeout = timeout
        self._stream: bytes = request.resume.stream
        self._last: Any = None
        self._held: list[E] = []  # events of a possible failure, dropped if the stream is resumed
        self._has_grown = False  # since the last break
        self._num_breaks = 0
        self._until = 0.0
        self._pause = _FIRST_PAUSE

    def take(self, event: Any) -> list[E]:
        """Take one event and return the events to emit."""
        if event.stream:
            self._stream = event.stream
        if event.position:
            self._last, self._has_grown, self._num_breaks = event, True, 0
        elif self._stream:
            self._held.append(event)
            return []
        return [*self.left(), event] if self._held else [event]

    def left(self) -> list[E]:
        """Return the held events, once the stream has ended."""
        held, self._held = self._held, []
        return held

    def rest(self) -> Any:
        """Return the request for the events that have not arrived yet."""
        self._held.clear()
        if self._last is None:
            return self._request
        request = type(self._request)()
        request.CopyFrom(self._request)
        request.resume.stream, request.resume.position = self._stream, self._last.position
        request.resume.sequence_number = self._last.sequence_number
        request.resume.ClearField("replay")
        return request

    def pause(self, error: SluiceError) -> float | None:
        """Return the seconds to wait before the stream is resumed; None if it can't be."""
        if not self._stream or self._last is None:  # no event has arrived, and gRPC has made all safe retries
            return None
        now = time.monotonic()
        is_lost = error.reason == _ENGINE_FAILED or (error.code in _RESET and not error.reason)
        is_break = is_lost or (self._has_grown and error.code in _PASSING)
        self._has_grown = False
        if is_break:
            self._num_breaks += 1
            if self._num_breaks == 1:
                self._until, self._pause = now + self._timeout, _FIRST_PAUSE
        if not self._num_breaks or self._num_breaks > _MOST_BREAKS or not (is_break or error.code in _PASSING):
            return None
        pause = max(self._pause, error.retry_delay or 0.0)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return pause if now + pause <= self._until else None
