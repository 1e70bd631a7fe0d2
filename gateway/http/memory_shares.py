"""Share a limited amount of memory among callers, so that no caller can use all of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from gateway.dialects.seam.failure import Failure, Reason

_RETRY_AFTER_S = 1.0
_MAX_REQUESTS = 1024  # the most requests of all callers that hold memory; each also occupies a connection


class MemoryShares:
    """A caller may hold at most as many bytes as remain free for others.

    One caller may hold half of `max_bytes`, two callers a third each. Used on the event loop's thread only.
    """

    def __init__(self, max_bytes: int) -> None:
        self.smallest = max_bytes // _MAX_REQUESTS  # bytes that a request should hold at least
        self._free = max_bytes
        self._held: dict[str, int] = {}

    @contextlib.contextmanager
    def hold(self, caller: str) -> Iterator[Holding]:
        """Hold bytes for a caller until the block ends."""
        holding = Holding(self, caller)
        try:
            yield holding
        finally:
            self._add(caller, -holding.num_bytes)

    def take(self, caller: str, num_bytes: int) -> None:
        """Reserve bytes. Raise Failure (429) if the caller would hold more than remain free."""
        limit = max(0, self._free + self._held.get(caller, 0)) // 2
        if self._held.get(caller, 0) + num_bytes > limit:
            text = f"the incomplete requests of this caller exceed the limit of currently {limit} bytes"
            raise Failure(Reason.CONCURRENCY_LIMITED, text, retry_after_s=_RETRY_AFTER_S)
        self._add(caller, num_bytes)

    def _add(self, caller: str, num_bytes: int) -> None:
        self._free -= num_bytes
        held = self._held.pop(caller, 0) + num_bytes
        if held:
            self._held[caller] = held


class Holding:
    """The bytes that one request of a caller holds."""

    def __init__(self, shares: MemoryShares, caller: str) -> None:
        self._shares = shares
        self._caller = caller
        self.num_bytes = 0

    def grow(self, num_bytes: int) -> None:
        """Hold more bytes. Raise Failure (429)."""
        self._shares.take(self._caller, num_bytes)
        self.num_bytes += num_bytes
