"""Calls that survive the replica that accepted them.

If the service dies before an answer is complete, another replica, or the same one after its restart, continues: a
stream from where it broke, an unstreamed answer from its beginning, since nothing of it was sent. A rejection by the
service is final: only an answer that was accepted is retried.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, Final

from google.protobuf.message import Message
from sluice.v1.stored_response_pb2 import FollowResponseRequest

from gateway.dialects.seam.failure import Failure, Reason
from gateway.upstream.caller import Caller
from gateway.upstream.client import ServiceClient
from gateway.upstream.errors import ServiceLost

_MAX_BREAKS: Final = 4  # per answer: the request itself may be what breaks it
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.05, 1.0
_TEMPORARY: Final = frozenset({429, 503})  # from services that restart or are overloaded
_BEGINNINGS: Final = frozenset({"started", "created", "in_progress"})


class ResumingClient:
    """A ServiceClient that resumes answers. With a `timeout_s` of 0 nothing is retried."""

    def __init__(self, client: ServiceClient, timeout_s: float) -> None:
        self._client = client
        self._timeout_s = timeout_s

    async def call(self, request: Message, caller: Caller, affinity: str = "") -> Any:
        """Return the answer of a unary call, like `ServiceClient.call`. Raise Failure."""
        retries = _Retries(self._timeout_s)
        while True:
            try:
                return await self._client.call(request, caller, affinity, spent_s=retries.spent_s)
            except Failure as failure:
                if not await retries.should_retry(failure):
                    raise retries.first or failure from None

    @contextlib.asynccontextmanager
    async def stream(
        self, request: Message, caller: Caller, affinity: str = ""
    ) -> AsyncIterator[AsyncIterator[Message]]:
        """Open a stream, like `ServiceClient.stream`. Reading it raises Failure."""
        async with contextlib.aclosing(self._events(request, caller, affinity)) as events:
            yield events

    async def _events(self, request: Message, caller: Caller, affinity: str) -> AsyncGenerator[Message, None]:
        """Yield the events of a stream, and resume it if its connection is lost. Raise Failure."""
        retries = _Retries(self._timeout_s)
        is_stored = isinstance(request, FollowResponseRequest) or getattr(request, "background", False)
        received: _Received | _Followed = (_Followed if is_stored else _Received)(request)
        while True:
            try:
                async with self._client.stream(
                    received.next_request(), caller, affinity, spent_s=retries.spent_s
                ) as events:
                    async for event in events:
                        for each in received.take(event):
                            yield each
                break
            except Failure as failure:
                if received.can_resume and await retries.should_retry(failure, is_recovered=received.has_progressed):
                    continue
                for each in received.take_held():
                    yield each
                raise retries.first or failure from None
        for each in received.take_held():
            yield each


class _Received:
    """The received part of one stream, and the request for the rest."""

    def __init__(self, request: Any) -> None:
        self.has_progressed = False  # since the last request was sent
        self._request = request
        is_resumed = request.HasField("resume")
        self._after = request.resume.sequence_number if is_resumed else -1  # up to it, events are replayed
        self._stream = b""
        self._last: Any = None  # event with a position, after which the stream is resumed
        self._is_started = False
        self._first_numbers: set[int] = set()  # numbers of the first events of a replayed stream
        self._held: list[Any] = []  # events that are sent once it is known what follows

    @property
    def can_resume(self) -> bool:
        """Return True if another replica can send the rest."""
        return bool(self._stream) or not self._is_started

    def next_request(self) -> Any:
        """Return the request for the rest of the stream."""
        self._held.clear()
        self.has_progressed = False
        if self._last is None:
            return self._request
        request = type(self._request)()
        request.CopyFrom(self._request)
        request.resume.stream, request.resume.position = self._stream, self._last.position
        request.resume.sequence_number = self._last.sequence_number
        request.resume.ClearField("replay")
        return request

    def take(self, event: Any) -> Sequence[Any]:
        """Take a received event, and return the events to pass on now."""
        if event.position and event.sequence_number > self._after:
            self._last, self.has_progressed = event, True
            if self._is_started and not self._held:
                return (event,)
        return self._sorted(event)

    def take_held(self) -> list[Any]:
        """Return the events that were held back, since nothing follows."""
        held, self._held = self._held, []
        return held

    def _sorted(self, event: Any) -> Sequence[Any]:
        kind = event.WhichOneof("event")
        if event.stream:
            self._stream = event.stream
        if event.sequence_number <= self._after and kind in _BEGINNINGS:
            was_started, self._is_started = event.sequence_number in self._first_numbers, True
            self._first_numbers.add(event.sequence_number)
            return () if was_started else (event,)
        self._is_started = True
        if event.sequence_number <= self._after or (self._stream and kind == "usage" and not event.position):
            self._held.append(event)
            return ()
        return (*self.take_held(), event)


class _Followed:
    """The received part of one response in the background, and the request for the rest.

    The request that creates it can be sent again, because it has an id.
    """

    can_resume = True

    def __init__(self, request: Any) -> None:
        self.has_progressed = False  # since the last request was sent
        self._next = request
        self._last = -1  # number of the last event

    def next_request(self) -> Any:
        """Return the request for the rest of the stream."""
        self.has_progressed = False
        return self._next

    def take(self, event: Any) -> Sequence[Any]:
        """Take a received event, and return it unless it was received before."""
        if event.sequence_number <= self._last:
            return ()
        self._last = event.sequence_number
        response_id = event.created.response.id or getattr(self._next, "id", "")
        self._next = FollowResponseRequest(id=response_id, starting_after=event.sequence_number)
        self.has_progressed = True
        return (event,)

    def take_held(self) -> list[Any]:
        """Return nothing: no events are held back."""
        return []


class _Retries:
    """The failures of one call, and whether to retry after the next."""

    def __init__(self, timeout_s: float) -> None:
        self.first: Failure | None = None  # since the last progress
        self._timeout_s = timeout_s
        self._began = time.monotonic()
        self._num_breaks = 0
        self._until = 0.0
        self._pause_s = _FIRST_PAUSE_S

    @property
    def spent_s(self) -> float:
        """Seconds of the call's time that earlier attempts have used."""
        return time.monotonic() - self._began if self._num_breaks else 0.0

    async def should_retry(self, failure: Failure, *, is_recovered: bool = False) -> bool:
        """Return True when it is time to retry, or False immediately if the failure is final.

        `is_recovered` is whether an event was received since the previous failure.
        """
        if is_recovered:
            self.first = None
        now = time.monotonic()
        is_break = isinstance(failure, ServiceLost) or failure.reason is Reason.ENGINE_FAILED
        is_break = is_break or (is_recovered and failure.status == 503)  # accepted, then cut off by a shutdown
        if is_break:
            self._num_breaks += 1
            if self.first is None:
                self.first, self._until, self._pause_s = failure, now + self._timeout_s, _FIRST_PAUSE_S
        if self.first is None or self._num_breaks > _MAX_BREAKS or not (is_break or failure.status in _TEMPORARY):
            return False
        pause_s = self._pause_s
        if failure.status == 429:
            pause_s = max(pause_s, failure.retry_after_s or 0)
        if now + pause_s > self._until:
            return False
        self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)
        await asyncio.sleep(pause_s)
        return True
