"""Sources of guesses whose worth is known."""

from __future__ import annotations

import random

from service.engine.sequence import Sequence
from tests.engine.fakes import sums


class SumDrafter:
    """Guesses what `sum_rule` says, but for the share of its guesses that is wrong."""

    def __init__(self, wrong: float = 0.0, seed: int = 0) -> None:
        self.num_guesses = 0
        self.kept: set[Sequence] = set()
        self._wrong = wrong
        self._random = random.Random(seed)

    def guess(self, sequence: Sequence, after: list[int], most: int) -> list[int]:
        self.num_guesses += 1
        self.kept.add(sequence)
        right = sums([*sequence.token_ids, *after], most, sequence.seed)
        return [(token_id + (self._random.random() < self._wrong)) % 256 for token_id in right]

    def release(self, sequence: Sequence) -> None:
        self.kept.discard(sequence)
