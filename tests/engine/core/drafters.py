"""Drafters with a known rate of correct proposals."""

from __future__ import annotations

import random
from collections import abc

from service.engine.core.drafts.drafter import DraftRequest
from service.engine.core.sequences.sequence import Sequence
from tests.engine.paged_runner import sums


class SumDrafter:
    """Guesses the tokens of `sum_rule`, except for a fraction `wrong` of its guesses."""

    def __init__(self, wrong: float = 0.0, seed: int = 0, *, is_costly: bool = False) -> None:
        self.is_costly = is_costly
        self.num_proposed = 0
        self.kept: set[Sequence] = set()
        self._wrong = wrong
        self._random = random.Random(seed)

    def propose(self, requests: abc.Sequence[DraftRequest]) -> list[list[int]]:
        return [self._guess(*each) for each in requests]

    def _guess(self, sequence: Sequence, after: list[int], most: int) -> list[int]:
        self.num_proposed += most
        self.kept.add(sequence)
        right = sums([*sequence.token_ids, *after], most, sequence.seed)
        return [(token_id + (self._random.random() < self._wrong)) % 256 for token_id in right]

    def release(self, sequence: Sequence) -> None:
        self.kept.discard(sequence)
