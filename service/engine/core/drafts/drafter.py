"""The interface of drafters, which propose a sequence's next tokens."""

from __future__ import annotations

from collections import abc
from typing import NamedTuple, Protocol

from service.engine.core.sequences.sequence import Sequence


class DraftRequest(NamedTuple):
    """A request for at most `most` tokens that may follow the sequence's tokens and the drafts in `after`.

    If the drafter is costly, the sequence's blocks have capacity for all of them.
    """

    sequence: Sequence
    after: list[int]
    most: int


class Drafter(Protocol):
    """A source of drafts. Only the engine's thread calls it."""

    @property
    def is_costly(self) -> bool:
        """True if each drafted token takes notable time, so that only usable tokens should be requested."""

    def propose(self, requests: abc.Sequence[DraftRequest]) -> list[list[int]]:
        """Return a draft for each request, in their order. A draft may be empty."""

    def release(self, sequence: Sequence) -> None:
        """Drop the state of a sequence, if any."""
