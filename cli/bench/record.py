"""The record of one request: the arrival times of its events, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(slots=True)
class Record:
    """The record of a request. Times are seconds of one clock. A failure has a short `error` kind and a `detail`."""

    sent: float
    received: list[float] = field(default_factory=list)  # the arrival times of events with text
    ended: float = 0.0
    prompt_tokens: int | None = None  # as reported by the server, None if it is not
    tokens: int | None = None  # of the answer
    is_finished: bool = False  # True if the stream was complete
    error: str = ""
    detail: str = ""
    retry_after: str = ""  # the server's Retry-After header

    @property
    def num_tokens(self) -> int:
        """The answer's tokens or, if the server does not report them, the number of events with text."""
        return len(self.received) if self.tokens is None else self.tokens

    @property
    def first_s(self) -> float | None:
        """The seconds from the request to the first text."""
        return self.received[0] - self.sent if self.received else None

    @property
    def took_s(self) -> float:
        """The seconds from the request to its end."""
        return self.ended - self.sent

    @property
    def per_token_s(self) -> float | None:
        """The mean time per token after the first event, or None if there were no more tokens."""
        if len(self.received) < 2 or self.num_tokens < 2:
            return None
        return (self.received[-1] - self.received[0]) / (self.num_tokens - 1)

    @property
    def gaps_s(self) -> list[float]:
        """The gaps between events with text."""
        return [after - before for before, after in pairwise(self.received)]

    def fail(self, error: str, detail: str = "") -> None:
        """Record a failure, unless one is already recorded."""
        if not self.error:
            self.error, self.detail = error, " ".join(detail.split())[:300]
