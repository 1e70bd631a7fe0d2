"""The logit bias, which a request adds to the logits of single tokens."""

from __future__ import annotations

from collections import abc
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from service.engine.core.sequences.sequence import Sequence, SequenceGroup
from service.engine.sampler.effects.effect import Row, ToDevice, token_index
from service.generation.errors import SequenceError

if TYPE_CHECKING:
    from torch import Tensor


class _Bias(NamedTuple):
    """The biased tokens of a request that are within the vocabulary."""

    token_ids: NDArray[np.int64]
    biases: NDArray[np.float32]  # one for each of `token_ids`


class LogitBias:
    """The effect. A request's bias, up to a thousand tokens, is read once for all its choices and steps."""

    def __init__(self) -> None:
        self._found: WeakKeyDictionary[SequenceGroup, _Bias] = WeakKeyDictionary()

    def is_used_by(self, sequence: Sequence) -> bool:
        """Return True if the request biases any token."""
        return bool(sequence.request.sampling.logit_bias)

    def change_row(self, row: Row, sequence: Sequence) -> None:
        """Add the bias."""
        bias = self._of(sequence, len(row))
        row[bias.token_ids] += bias.biases

    def change_rows(
        self, logits: Tensor, sequences: abc.Sequence[Sequence], rows: abc.Sequence[int], to_device: ToDevice
    ) -> abc.Mapping[int, SequenceError]:
        """Add the bias of each row."""
        found = [self._of(sequences[row], logits.shape[1]) for row in rows]
        index = token_index(rows, [each.token_ids for each in found], to_device)
        logits[index] += to_device(np.concatenate([each.biases for each in found]))
        return {}

    def release(self, sequence: Sequence) -> None:
        """Drop nothing: the request's bias is dropped with the request."""

    def _of(self, sequence: Sequence, vocab_size: int) -> _Bias:
        """Return the bias of a sequence's group as arrays, without tokens that the vocabulary does not have."""
        found = self._found.get(sequence.group)
        if found is None:
            bias = {id_: value for id_, value in sequence.request.sampling.logit_bias.items() if 0 <= id_ < vocab_size}
            found = self._found[sequence.group] = _Bias(
                np.fromiter(bias.keys(), np.int64, len(bias)), np.fromiter(bias.values(), np.float32, len(bias))
            )
        return found
