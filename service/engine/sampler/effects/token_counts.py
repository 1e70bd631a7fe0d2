"""How often each token occurs in a sequence's output, for the penalties."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from service.engine.core.sequences.sequence import Sequence


class TokenCounts:
    """The distinct tokens of one sequence: `ids`, and the number of times that each was generated (0: prompt only)."""

    def __init__(self, sequence: Sequence, *, with_prompt: bool) -> None:
        """With `with_prompt`, `ids` also has the prompt's tokens, with a count of 0 until they are generated."""
        self._index: dict[int, int] = {}
        self._ids = np.empty(64, dtype=np.int64)
        self._counts = np.empty(64, dtype=np.float32)
        if with_prompt:
            for token_id in sequence.token_ids[: sequence.num_prompt_tokens]:
                self._index_of(token_id)
        self._num_counted = sequence.num_prompt_tokens

    def update(self, sequence: Sequence) -> None:
        """Count the tokens that the sequence generated since the last call."""
        for token_id in sequence.token_ids[self._num_counted :]:
            index = self._index_of(token_id)  # may replace the arrays
            self._counts[index] += 1
        self._num_counted = len(sequence.token_ids)

    @property
    def ids(self) -> NDArray[np.int64]:
        return self._ids[: len(self._index)]

    @property
    def counts(self) -> NDArray[np.float32]:
        return self._counts[: len(self._index)]

    def _index_of(self, token_id: int) -> int:
        """Return a token's index in `ids` and `counts`. Add a new token with a count of 0."""
        index = self._index.get(token_id)
        if index is None:
            index = self._index[token_id] = len(self._index)
            if index == len(self._ids):
                self._ids = np.resize(self._ids, 2 * index)
                self._counts = np.resize(self._counts, 2 * index)
            self._ids[index] = token_id
            self._counts[index] = 0
        return index
