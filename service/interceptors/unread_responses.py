"""Responses that wait for their readers, within a bound of memory.

A client that reads nothing of many large responses would fill the memory in the time after which each of them is
ended. Runs on the event loop's thread only.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

_MAX_BYTES: Final = 1 << 28
_MAX_NUMBER: Final = 256  # a quarter of the calls that are served at the same time by default
_MIN_WAIT_S: Final = 1.0  # readers get this time at least


class TimeLimit(Protocol):
    """What ends the sending of a response: an `asyncio.Timeout`."""

    def expired(self) -> bool: ...

    def reschedule(self, when: float, /) -> None: ...


class _Waiting(NamedTuple):
    began: float
    num_bytes: int
    limit: TimeLimit


class UnreadResponses:
    """Ends the responses that have waited longest, and for a second at least, if all have more than `max_bytes`."""

    def __init__(
        self,
        max_bytes: int = _MAX_BYTES,
        max_number: int = _MAX_NUMBER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_number = max_number
        self._clock = clock
        self._num_bytes = 0
        self._waiting: dict[object, _Waiting] = {}  # oldest first

    @contextlib.contextmanager
    def hold(self, num_bytes: int, limit: TimeLimit) -> Iterator[None]:
        """Count a response of `num_bytes` while the block sends it. `limit` expires at once if others need the room."""
        now, ticket = self._clock(), object()
        self._waiting[ticket] = _Waiting(now, num_bytes, limit)
        self._num_bytes += num_bytes
        try:
            self._end_oldest(now)
            yield
        finally:
            self._release(ticket)

    def _end_oldest(self, now: float) -> None:
        for ticket, oldest in list(self._waiting.items()):
            has_room = self._num_bytes <= self._max_bytes and len(self._waiting) <= self._max_number
            if has_room or now - oldest.began < _MIN_WAIT_S:
                return
            self._release(ticket)
            if not oldest.limit.expired():  # its task may not have run since
                oldest.limit.reschedule(0.0)

    def _release(self, ticket: object) -> None:
        if (found := self._waiting.pop(ticket, None)) is not None:
            self._num_bytes -= found.num_bytes
