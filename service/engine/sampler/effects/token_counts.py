"""How often a sequence has used each token, for penalties."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from service.engine.core.sequences.sequence import Sequence


class TokenCounts:
    """The distinct tokens of one sequence: `ids`, and how often each was generated (0: only in the prompt)."""

    def __init__(self, sequence: Sequence, *, with_prompt: bool) -> None:
        """Count the generated tokens only, unless `with_prompt`."""
        self._place: dict[int, int] = {}
        self._ids = np.empty(64, dtype=np.int64)
        self._counts = np.empty(64, dtype=np.float32)
        if with_prompt:
            for token_id in sequence.token_ids[: sequence.num_prompt_tokens]:
                self._place_of(token_id)
        self._num_counted = sequence.num_prompt_tokens

    def update(self, sequence: Sequence) -> None:
        """Count what the sequence generated since the last call."""
        for token_id in sequence.token_ids[self._num_counted :]:
            place = self._place_of(token_id)  # may replace the arrays
            self._counts[place] += 1
        self._num_counted = len(sequence.token_ids)

    @property
    def ids(self) -> NDArray[np.int64]:
        return self._ids[: len(self._place)]

    @property
    def counts(self) -> NDArray[np.float32]:
        return self._counts[: len(self._place)]

    def _place_of(self, token_id: int) -> int:
        place = self._place.get(token_id)
        if place is None:
            place = self._place[token_id] = len(self._place)
            if place == len(self._ids):
                self._ids = np.resize(self._ids, 2 * place)
                self._counts = np.resize(self._counts, 2 * place)
            self._ids[place] = token_id
            self._counts[place] = 0
        return place
