"""The tokens that a request names, as arrays made once for all its choices and steps: up to a thousand."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from service.engine.core.sequences.sequence import Sequence, SequenceGroup


class NamedTokens(NamedTuple):
    """Those of the vocabulary: what is added to the logits of some, and which ones end an answer."""

    biased_ids: NDArray[np.int64]
    biases: NDArray[np.float32]  # one for each of `biased_ids`
    end_ids: NDArray[np.int64]


class NamedTokensTable:
    """The named tokens of all requests that are sampled for."""

    def __init__(self) -> None:
        self._found: WeakKeyDictionary[SequenceGroup, NamedTokens] = WeakKeyDictionary()

    def of(self, sequence: Sequence, vocab_size: int) -> NamedTokens:
        """Those that the sequence's request names."""
        found = self._found.get(sequence.group)
        if found is None:
            bias = {id_: value for id_, value in sequence.request.sampling.logit_bias.items() if 0 <= id_ < vocab_size}
            found = self._found[sequence.group] = NamedTokens(
                np.fromiter(bias.keys(), np.int64, len(bias)),
                np.fromiter(bias.values(), np.float32, len(bias)),
                np.array([id_ for id_ in sequence.end_token_ids if 0 <= id_ < vocab_size], np.int64),
            )
        return found
