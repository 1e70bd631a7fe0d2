"""The allowed tokens: a request may name the only tokens that are drawn."""

from __future__ import annotations

import math
from collections import abc
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from service.engine.core.sequences.sequence import Sequence, SequenceGroup
from service.engine.sampler.effects.effect import Row, ToDevice
from service.generation.errors import SequenceError

if TYPE_CHECKING:
    from torch import Tensor


class AllowedTokens:
    """The effect. A request's tokens are read once for all its choices and steps."""

    def __init__(self) -> None:
        self._found: WeakKeyDictionary[SequenceGroup, NDArray[np.int64]] = WeakKeyDictionary()

    def is_used_by(self, sequence: Sequence) -> bool:
        """Return True if the request allows some tokens only."""
        return bool(sequence.request.sampling.allowed_token_ids)

    def change_row(self, row: Row, sequence: Sequence) -> None:
        """Set all other tokens to -inf."""
        allowed = self._of(sequence, len(row))
        kept = row[allowed]
        row.fill(-np.inf)
        row[allowed] = kept

    def change_rows(
        self, logits: Tensor, sequences: abc.Sequence[Sequence], rows: abc.Sequence[int], to_device: ToDevice
    ) -> abc.Mapping[int, SequenceError]:
        """Set all other tokens of each row to -inf."""
        for row in rows:
            allowed = to_device(self._of(sequences[row], logits.shape[1]))
            kept = logits[row, allowed]
            logits[row].fill_(-math.inf)
            logits[row, allowed] = kept
        return {}

    def release(self, sequence: Sequence) -> None:
        """Drop nothing: the request's tokens are dropped with the request."""

    def _of(self, sequence: Sequence, vocab_size: int) -> NDArray[np.int64]:
        found = self._found.get(sequence.group)
        if found is None:
            within = sorted({id_ for id_ in sequence.request.sampling.allowed_token_ids if 0 <= id_ < vocab_size})
            found = self._found[sequence.group] = np.array(within, np.int64)
        return found
