"""The interface of drafters, which guess a sequence's next tokens."""

from __future__ import annotations

from collections import abc
from typing import NamedTuple, Protocol

from service.engine.core.sequences.sequence import Sequence


class DraftRequest(NamedTuple):
    """At most `most` tokens are wanted that may follow the sequence's and those of `after`, which are guessed already.

    For a costly drafter the sequence's blocks have room for all of them.
    """

    sequence: Sequence
    after: list[int]
    most: int


class Drafter(Protocol):
    """A source of guesses. Only the engine's thread calls it."""

    @property
    def is_costly(self) -> bool:
        """Whether each token of a guess takes time, so that none should be guessed in vain."""

    def guess(self, wanted: abc.Sequence[DraftRequest]) -> list[list[int]]:
        """A guess for each of the wanted, in their order; an empty one where nothing is known."""

    def release(self, sequence: Sequence) -> None:
        """Forget what is kept for a sequence, if anything."""
