"""The minimal length: no token that ends a choice is drawn before `min_tokens` tokens."""

from __future__ import annotations

import math
from collections import abc
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from service.engine.core.sequences.sequence import Sequence, SequenceGroup
from service.engine.sampler.effects.effect import Row, ToDevice, token_index
from service.generation.errors import SequenceError

if TYPE_CHECKING:
    from torch import Tensor


class MinimumLength:
    """The effect. A request's end tokens are read once for all its choices and steps."""

    def __init__(self) -> None:
        self._found: WeakKeyDictionary[SequenceGroup, NDArray[np.int64]] = WeakKeyDictionary()

    def is_used_by(self, sequence: Sequence) -> bool:
        """Return True if the request has a minimal length."""
        return sequence.request.stopping.min_tokens > 0

    def change_row(self, row: Row, sequence: Sequence) -> None:
        """Set the end tokens to -inf while the choice is too short."""
        if sequence.is_too_short:
            row[self._end_ids(sequence, len(row))] = -np.inf

    def change_rows(
        self, logits: Tensor, sequences: abc.Sequence[Sequence], rows: abc.Sequence[int], to_device: ToDevice
    ) -> abc.Mapping[int, SequenceError]:
        """Set the end tokens to -inf in each row whose choice is too short."""
        short = [row for row in rows if sequences[row].is_too_short]
        if short:
            ids = [self._end_ids(sequences[row], logits.shape[1]) for row in short]
            logits[token_index(short, ids, to_device)] = -math.inf
        return {}

    def release(self, sequence: Sequence) -> None:
        """Drop nothing: the request's end tokens are dropped with the request."""

    def _end_ids(self, sequence: Sequence, vocab_size: int) -> NDArray[np.int64]:
        found = self._found.get(sequence.group)
        if found is None:
            within = [id_ for id_ in sequence.end_token_ids if 0 <= id_ < vocab_size]
            found = self._found[sequence.group] = np.array(within, np.int64)
        return found
