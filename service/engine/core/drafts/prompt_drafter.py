"""Draft tokens by lookup: the tokens that followed the same tokens earlier, in prompt or answer."""

from __future__ import annotations

from collections import abc

from service.engine.core.drafts.drafter import DraftRequest
from service.engine.core.sequences.sequence import Sequence

_LENGTH = 3  # tokens that must have stood there together; fewer meet by chance


class PromptLookup:
    """The places of one text's runs of `_LENGTH` tokens. The text only grows."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, ...], int] = {}  # of each run, the end of its last place but the text's own end
        self._num_noted = _LENGTH  # runs that end before this are in there

    def guess(self, token_ids: list[int], after: list[int], most: int) -> list[int]:
        """At most `most` tokens that may follow the text and `after`; none if nothing is found.

        `token_ids` is all of the text so far, `after` what is guessed of it already.
        """
        self._note(token_ids)
        last = token_ids[-_LENGTH:]
        found = self._ends.get(tuple((last + after)[-_LENGTH:] if after else last))
        if found is None:
            return []
        guess = token_ids[found : found + most]
        # A text that repeats itself without a gap goes on within the guess.
        guess += after[: most - len(guess)]
        period = len(guess)
        while len(guess) < most:
            guess.append(guess[-period])
        return guess

    def _note(self, token_ids: list[int]) -> None:
        ends = range(self._num_noted, len(token_ids))  # the last run is what is looked for, not where
        if len(ends) == 1:
            self._ends[tuple(token_ids[-1 - _LENGTH : -1])] = ends.start
            self._num_noted = ends.stop
        elif ends:
            parts = (token_ids[ends.start - before : ends.stop - before] for before in range(_LENGTH, 0, -1))
            self._ends.update(zip(zip(*parts, strict=True), ends, strict=True))
            self._num_noted = ends.stop


class PromptDrafter:
    """A Drafter that guesses from each sequence's own prompt and answer."""

    is_costly = False

    def __init__(self) -> None:
        self._lookups: dict[Sequence, PromptLookup] = {}

    def guess(self, wanted: abc.Sequence[DraftRequest]) -> list[list[int]]:
        """What followed the last tokens where they stood before."""
        return [self._lookup(each.sequence).guess(each.sequence.token_ids, each.after, each.most) for each in wanted]

    def release(self, sequence: Sequence) -> None:
        """Forget a sequence's places; they are found anew if it comes back."""
        self._lookups.pop(sequence, None)

    def _lookup(self, sequence: Sequence) -> PromptLookup:
        lookup = self._lookups.get(sequence)
        if lookup is None:
            lookup = self._lookups[sequence] = PromptLookup()
        return lookup
