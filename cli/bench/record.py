"""One request of a run: when its pieces came, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(slots=True)
class Record:
    """Moments are seconds of one clock. What failed has an `error`, its kind in few words, and its `detail`."""

    sent: float
    received: list[float] = field(default_factory=list)  # each event with text
    ended: float = 0.0
    prompt_tokens: int | None = None  # as the server tells; None if it doesn't
    tokens: int | None = None  # of the answer
    is_finished: bool = False  # whether the stream told its end
    error: str = ""
    detail: str = ""
    retry_after: str = ""  # when the server wants to be asked again, as it says it

    @property
    def num_tokens(self) -> int:
        """The answer's tokens; where the server tells none, its events with text."""
        return len(self.received) if self.tokens is None else self.tokens

    @property
    def first_s(self) -> float | None:
        """From the request to the first text."""
        return self.received[0] - self.sent if self.received else None

    @property
    def took_s(self) -> float:
        """From the request to its end."""
        return self.ended - self.sent

    @property
    def per_token_s(self) -> float | None:
        """The mean time of a token after the first event; None where there was nothing more."""
        if len(self.received) < 2 or self.num_tokens < 2:
            return None
        return (self.received[-1] - self.received[0]) / (self.num_tokens - 1)

    @property
    def gaps_s(self) -> list[float]:
        """Between the events with text."""
        return [after - before for before, after in pairwise(self.received)]

    def fail(self, error: str, detail: str = "") -> None:
        """Note why it failed, unless that is known."""
        if not self.error:
            self.error, self.detail = error, " ".join(detail.split())[:300]
