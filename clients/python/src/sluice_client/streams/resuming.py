"""Resume a broken stream: its received events, the request for the remaining ones, and the delay before a retry."""

from __future__ import annotations

import time
from typing import Any, Final, Generic, TypeVar

import grpc

from sluice_client.errors import SluiceError, reason_name
from sluice_client.v1 import error_pb2, stored_response_pb2

EventT = TypeVar("EventT")  # the message of a stream's events

_ENGINE_FAILED: Final = reason_name(error_pb2.ERROR_REASON_ENGINE_FAILED)
_MAX_BREAKS: Final = 4  # without a new event between them, since the request itself may crash the servers
_INITIAL_DELAY, _MAX_DELAY = 0.05, 1.0  # seconds
# Codes of a broken connection, if the status has no reason, and of a missing or overloaded server.
_CONNECTION_LOST: Final = frozenset({grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN})
_TRANSIENT: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED})


class ReceivedEvents(Generic[EventT]):
    """The events received from one stream, whose events may arrive over several calls if it breaks.

    In a stream that can be resumed, an event without a position may precede a failure: it has the usage so far of an
    answer that failed. It is held back, and dropped if the stream is resumed instead.
    """

    def __init__(self, request: Any, timeout: float) -> None:
        """`timeout` is the number of seconds after a break for which the stream may be resumed."""
        self._request = request
        self._timeout = timeout
        # A response in the background is followed by the numbers of its events, without positions.
        self._is_followed = isinstance(request, stored_response_pb2.FollowResponseRequest)
        self._is_resumable = "resume" in request.DESCRIPTOR.fields_by_name  # the stream of an answer
        self._stream: bytes = request.resume.stream if self._is_resumable else b""
        self.has_begun = False  # True if an event has arrived
        self._last: Any = None
        self._held: list[EventT] = []
        self._has_grown = False  # True if an event has arrived since the last break
        self._num_breaks = 0
        self._deadline = 0.0
        self._delay = _INITIAL_DELAY

    def take(self, event: Any) -> list[EventT]:
        """Record one event, and return the events that the reader may see now."""
        self.has_begun = True
        if not (self._is_resumable or self._is_followed):
            return [event]
        if event.stream:
            self._stream = event.stream
        if event.position or self._is_followed:
            self._last, self._has_grown, self._num_breaks = event, True, 0
        elif self._stream:
            self._held.append(event)
            return []
        return [*self.release_held(), event] if self._held else [event]

    def release_held(self) -> list[EventT]:
        """Return the events held back, if any, and hold none from now on."""
        held, self._held = self._held, []
        return held

    def next_request(self) -> Any:
        """Return the request for the events that have not arrived yet, and drop those held back."""
        self._held.clear()
        if self._last is None:
            return self._request
        request = type(self._request)()
        request.CopyFrom(self._request)
        if self._is_followed:
            request.starting_after = self._last.sequence_number
            return request
        request.resume.stream, request.resume.position = self._stream, self._last.position
        request.resume.sequence_number = self._last.sequence_number
        request.resume.ClearField("replay")
        return request

    def resume_delay(self, error: SluiceError) -> float | None:
        """Return the seconds to wait before the stream is resumed, or None if `error` is final."""
        if (
            not (self._stream or self._is_followed) or self._last is None
        ):  # no event has arrived, and gRPC has made all safe retries
            return None
        now = time.monotonic()
        is_lost = error.reason == _ENGINE_FAILED or (error.code in _CONNECTION_LOST and not error.reason)
        is_break = is_lost or (self._has_grown and error.code in _TRANSIENT)
        self._has_grown = False
        if is_break:
            self._num_breaks += 1
            if self._num_breaks == 1:
                self._deadline, self._delay = now + self._timeout, _INITIAL_DELAY
        if not self._num_breaks or self._num_breaks > _MAX_BREAKS or not (is_break or error.code in _TRANSIENT):
            return None
        delay = max(self._delay, error.retry_delay or 0.0)
        self._delay = min(2 * self._delay, _MAX_DELAY)
        return delay if now + delay <= self._deadline else None
