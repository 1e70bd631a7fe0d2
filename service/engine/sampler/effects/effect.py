"""The interface of a sampling effect: one change that a request makes to its row of logits before a token is drawn."""

from __future__ import annotations

from collections import abc
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.engine.core.sequences.sequence import Sequence
from service.generation.errors import SequenceError

if TYPE_CHECKING:  # the native backend samples without torch, so no effect imports it
    from torch import Tensor

Row: TypeAlias = NDArray[np.float32]  # [vocabulary]
ToDevice: TypeAlias = "abc.Callable[[NDArray[Any]], Tensor]"


class Effect(Protocol):
    """An effect in its two forms, with one sampler's state for it.

    Both forms change the same logits to the same values, in place, and are called only for sequences that use it.
    """

    def is_used_by(self, sequence: Sequence) -> bool:
        """Return True if the sequence's request uses the effect. The result is the same for all its tokens."""

    def change_row(self, row: Row, sequence: Sequence) -> None:
        """Change one sequence's row, in numpy, whose warnings are off. Raise SequenceError if that fails."""

    def change_rows(
        self, logits: Tensor, sequences: abc.Sequence[Sequence], rows: abc.Sequence[int], to_device: ToDevice
    ) -> abc.Mapping[int, SequenceError]:
        """Change, in torch, those `rows` of `logits` [rows, vocabulary] that belong to `sequences` of the same index.

        `to_device` copies an array to the device of the logits. Return the rows that failed.
        """

    def release(self, sequence: Sequence) -> None:
        """Drop the state of a sequence; it is created again if the sequence returns."""


def token_index(
    rows: abc.Sequence[int], token_ids: abc.Sequence[NDArray[np.int64]], to_device: ToDevice
) -> tuple[Tensor, Tensor]:
    """Index the given tokens of each row, in a tensor of logits [rows, vocabulary]."""
    row_index = np.repeat(np.array(rows), [len(ids) for ids in token_ids])
    return to_device(row_index), to_device(np.concatenate(token_ids))
