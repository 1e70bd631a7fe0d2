"""Calls that survive the service that began them.

When the service dies before an answer is whole, the answer goes on at another replica, or at the same one when it is
back: a stream where it broke, a whole answer from its beginning, since nothing of it was told. What a service refuses
is refused: only an answer that was accepted is tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, Final

from google.protobuf.message import Message

from gateway.dialects.seam.failure import Failure, Reason
from gateway.upstream.client import Caller, ServiceClient
from gateway.upstream.errors import ServiceLost

_MOST_BREAKS: Final = 4  # of one answer: what breaks it may be the request itself
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_PASSING: Final = frozenset({429, 503})  # what services say that come back, or have much to take up
_BEGINNINGS: Final = frozenset({"started", "created", "in_progress"})


class ResumingClient:
    """A ServiceClient for answers. With a `timeout_s` of 0 nothing is tried again."""

    def __init__(self, client: ServiceClient, timeout_s: float) -> None:
        self._client = client
        self._timeout_s = timeout_s

    async def call(self, request: Message, caller: Caller, affinity: str = "") -> Any:
        """As ServiceClient.call."""
        breaks = _Breaks(self._timeout_s)
        while True:
            try:
                return await self._client.call(request, caller, affinity, spent_s=breaks.spent_s)
            except Failure as failure:
                if not await breaks.is_outlasted(failure):
                    raise breaks.first or failure from None

    @contextlib.asynccontextmanager
    async def stream(
        self, request: Message, caller: Caller, affinity: str = ""
    ) -> AsyncIterator[AsyncIterator[Message]]:
        """As ServiceClient.stream, but that reading raises Failure itself."""
        async with contextlib.aclosing(self._events(request, caller, affinity)) as events:
            yield events

    async def _events(self, request: Message, caller: Caller, affinity: str) -> AsyncGenerator[Message, None]:
        breaks, received = _Breaks(self._timeout_s), _Received(request)
        while True:
            try:
                async with self._client.stream(received.rest(), caller, affinity, spent_s=breaks.spent_s) as events:
                    async for event in events:
                        for each in received.take(event):
                            yield each
                break
            except Failure as failure:
                if received.can_go_on and await breaks.is_outlasted(failure, has_mended=received.has_grown):
                    continue
                for each in received.left():
                    yield each
                raise breaks.first or failure from None
        for each in received.left():
            yield each


class _Received:
    """What has come of one stream, and the request for what has not."""

    def __init__(self, request: Any) -> None:
        self.has_grown = False  # since the request was sent the last time
        self._request = request
        is_resumed = request.HasField("resume")
        self._after = request.resume.sequence_number if is_resumed else -1  # what has other numbers is told again
        self._stream = b""
        self._last: Any = None  # of the events that a stream goes on after
        self._has_begun = False
        self._begun: set[int] = set()  # numbers of those that a stream which is told again begins with
        self._held: list[Any] = []  # not to be told before it is known what follows

    @property
    def can_go_on(self) -> bool:
        """Whether what has not come can be had from another service."""
        return bool(self._stream) or not self._has_begun

    def rest(self) -> Any:
        """The request for it."""
        self._held.clear()
        self.has_grown = False
        if self._last is None:
            return self._request
        request = type(self._request)()
        request.CopyFrom(self._request)
        request.resume.stream, request.resume.position = self._stream, self._last.position
        request.resume.sequence_number = self._last.sequence_number
        request.resume.ClearField("replay")
        return request

    def take(self, event: Any) -> Sequence[Any]:
        """What is to be told now that the event has come."""
        if event.position and event.sequence_number > self._after:
            self._last, self.has_grown = event, True
            if self._has_begun and not self._held:
                return (event,)
        return self._sorted(event)

    def left(self) -> list[Any]:
        """What was held, now that nothing follows."""
        held, self._held = self._held, []
        return held

    def _sorted(self, event: Any) -> Sequence[Any]:
        kind = event.WhichOneof("event")
        if event.stream:
            self._stream = event.stream
        if event.sequence_number <= self._after and kind in _BEGINNINGS:
            has_begun, self._has_begun = event.sequence_number in self._begun, True
            self._begun.add(event.sequence_number)
            return () if has_begun else (event,)
        self._has_begun = True
        if event.sequence_number <= self._after or (self._stream and kind == "usage" and not event.position):
            self._held.append(event)
            return ()
        return (*self.left(), event)


class _Breaks:
    """What has befallen one call."""

    def __init__(self, timeout_s: float) -> None:
        self.first: Failure | None = None  # of those that have not mended
        self._timeout_s = timeout_s
        self._began = time.monotonic()
        self._num_breaks = 0
        self._until = 0.0
        self._pause_s = _FIRST_PAUSE_S

    @property
    def spent_s(self) -> float:
        """Of the call's time, what earlier tries have taken."""
        return time.monotonic() - self._began if self._num_breaks else 0.0

    async def is_outlasted(self, failure: Failure, *, has_mended: bool = False) -> bool:
        """Return True when it is time to try again, and False at once if it never will be.

        `has_mended` tells whether anything has come since the failure before.
        """
        if has_mended:
            self.first = None
        now = time.monotonic()
        is_break = isinstance(failure, ServiceLost) or failure.reason is Reason.ENGINE_FAILED
        is_break = is_break or (has_mended and failure.status == 503)  # it was accepted, and cut off by a stop
        if is_break:
            self._num_breaks += 1
            if self.first is None:
                self.first, self._until, self._pause_s = failure, now + self._timeout_s, _FIRST_PAUSE_S
        if self.first is None or self._num_breaks > _MOST_BREAKS or not (is_break or failure.status in _PASSING):
            return False
        pause_s = self._pause_s
        if failure.status == 429:
            pause_s = max(pause_s, failure.retry_after_s or 0)
        if now + pause_s > self._until:
            return False
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        await asyncio.sleep(pause_s)
        return True
