"""Calls that survive the replica that began them.

If a replica stops before an answer is complete, the answer continues at another replica, or at the same one after its
restart: a stream from where it broke, an unstreamed answer from its beginning, since nothing of it was sent. Rejected
calls are not retried: only an answer that was admitted is.
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

_MAX_BREAKS: Final = 4  # of one answer, since the request itself may be the cause
_MIN_PAUSE_S, _MAX_PAUSE_S = 0.05, 1.0
_TRANSIENT: Final = frozenset({429, 503})  # statuses of replicas that start, or take over others' requests
_BEGINNINGS: Final = frozenset({"started", "created", "in_progress"})


class ResumingClient:
    """A ServiceClient that resumes answers. With a `timeout_s` of 0 nothing is retried."""

    def __init__(self, client: ServiceClient, timeout_s: float) -> None:
        self._client = client
        self._timeout_s = timeout_s

    async def call(self, request: Message, caller: Caller, affinity: str = "") -> Any:
        """Call a unary RPC like ServiceClient.call."""
        breaks = _Breaks(self._timeout_s)
        while True:
            try:
                return await self._client.call(request, caller, affinity, spent_s=breaks.spent_s)
            except Failure as failure:
                if not await breaks.should_retry(failure):
                    raise breaks.first or failure from None

    @contextlib.asynccontextmanager
    async def stream(
        self, request: Message, caller: Caller, affinity: str = ""
    ) -> AsyncIterator[AsyncIterator[Message]]:
        """Open a streaming RPC like ServiceClient.stream; reading events raises Failure."""
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
                if received.can_resume and await breaks.should_retry(failure, has_progressed=received.has_grown):
                    continue
                for each in received.flush():
                    yield each
                raise breaks.first or failure from None
        for each in received.flush():
            yield each


class _Received:
    """The received events of one stream, and the request for the rest."""

    def __init__(self, request: Any) -> None:
        self.has_grown = False  # since the request was sent the last time
        self._request = request
        is_resumed = request.HasField("resume")
        self._after = request.resume.sequence_number if is_resumed else -1  # events with lower numbers are replayed
        self._stream = b""
        self._last: Any = None  # the last event with a position
        self._has_begun = False
        self._begun: set[int] = set()  # numbers of the first events of a replayed stream
        self._held: list[Any] = []  # withheld until the next event is known

    @property
    def can_resume(self) -> bool:
        """Whether another replica can continue the stream."""
        return bool(self._stream) or not self._has_begun

    def rest(self) -> Any:
        """Return the request for the events that have not been received."""
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
        """Return the events to forward after this one was received."""
        if event.position and event.sequence_number > self._after:
            self._last, self.has_grown = event, True
            if self._has_begun and not self._held:
                return (event,)
        return self._sorted(event)

    def flush(self) -> list[Any]:
        """Return the withheld events at the end of the stream."""
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
        return (*self.flush(), event)


class _Breaks:
    """The interruptions of one call."""

    def __init__(self, timeout_s: float) -> None:
        self.first: Failure | None = None  # of the current series without progress
        self._timeout_s = timeout_s
        self._began = time.monotonic()
        self._num_breaks = 0
        self._until = 0.0
        self._pause_s = _MIN_PAUSE_S

    @property
    def spent_s(self) -> float:
        """The time that earlier attempts have taken, in seconds."""
        return time.monotonic() - self._began if self._num_breaks else 0.0

    async def should_retry(self, failure: Failure, *, has_progressed: bool = False) -> bool:
        """Return True after the pause before the next attempt, or False immediately if there is none.

        `has_progressed` means that events were received since the previous failure.
        """
        if has_progressed:
            self.first = None
        now = time.monotonic()
        is_break = isinstance(failure, ServiceLost) or failure.reason is Reason.ENGINE_FAILED
        is_break = is_break or (has_progressed and failure.status == 503)  # admitted, then ended by a shutdown
        if is_break:
            self._num_breaks += 1
            if self.first is None:
                self.first, self._until, self._pause_s = failure, now + self._timeout_s, _MIN_PAUSE_S
        if self.first is None or self._num_breaks > _MAX_BREAKS or not (is_break or failure.status in _TRANSIENT):
            return False
        pause_s = self._pause_s
        if failure.status == 429:
            pause_s = max(pause_s, failure.retry_after_s or 0)
        if now + pause_s > self._until:
            return False
        self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)
        await asyncio.sleep(pause_s)
        return True
