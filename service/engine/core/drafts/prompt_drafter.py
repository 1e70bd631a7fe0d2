"""Draft tokens by lookup: propose the tokens that followed the same n-gram earlier in the prompt or the answer."""

from __future__ import annotations

from collections import abc

from service.engine.core.drafts.drafter import DraftRequest
from service.engine.core.sequences.sequence import Sequence

_LENGTH = 3  # tokens of an n-gram; shorter ones recur by chance


class PromptLookup:
    """The positions of one text's n-grams of `_LENGTH` tokens. The text only grows."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, ...], int] = {}  # the end of each n-gram's last occurrence before the text's end
        self._num_indexed = _LENGTH  # n-grams that end before this position are indexed

    def propose(self, token_ids: list[int], after: list[int], most: int) -> list[int]:
        """Return at most `most` tokens that may follow the text and `after`, or none if the last n-gram is new.

        `token_ids` is the whole text so far, `after` the drafts that follow it.
        """
        self._index(token_ids)
        last = token_ids[-_LENGTH:]
        found = self._ends.get(tuple((last + after)[-_LENGTH:] if after else last))
        if found is None:
            return []
        proposal = token_ids[found : found + most]
        # A text that repeats itself without a gap continues within the proposal.
        proposal += after[: most - len(proposal)]
        period = len(proposal)
        while len(proposal) < most:
            proposal.append(proposal[-period])
        return proposal

    def _index(self, token_ids: list[int]) -> None:
        """Index the n-grams of a sequence that are new since the last call, except the last one."""
        ends = range(self._num_indexed, len(token_ids))  # without the last n-gram, which is looked up
        if len(ends) == 1:
            self._ends[tuple(token_ids[-1 - _LENGTH : -1])] = ends.start
            self._num_indexed = ends.stop
        elif ends:
            parts = (token_ids[ends.start - before : ends.stop - before] for before in range(_LENGTH, 0, -1))
            self._ends.update(zip(zip(*parts, strict=True), ends, strict=True))
            self._num_indexed = ends.stop


class PromptDrafter:
    """A Drafter that looks up the last n-gram in the sequence's own prompt and answer."""

    is_costly = False

    def __init__(self) -> None:
        self._lookups: dict[Sequence, PromptLookup] = {}

    def propose(self, requests: abc.Sequence[DraftRequest]) -> list[list[int]]:
        """Return the tokens that followed the last n-gram at its previous occurrence."""
        return [
            self._lookup(each.sequence).propose(each.sequence.token_ids, each.after, each.most) for each in requests
        ]

    def release(self, sequence: Sequence) -> None:
        """Drop a sequence's index. It is built again if the sequence is scheduled again."""
        self._lookups.pop(sequence, None)

    def _lookup(self, sequence: Sequence) -> PromptLookup:
        lookup = self._lookups.get(sequence)
        if lookup is None:
            lookup = self._lookups[sequence] = PromptLookup()
        return lookup
