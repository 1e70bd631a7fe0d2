"""The output constraint's effect on the logits, the tokens that replace drawn ones, and rows without allowed tokens."""

from __future__ import annotations

import math
from collections import abc
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.core.sequences.sequence import Sequence
from service.engine.sampler.effects.effect import Row, ToDevice
from service.generation.errors import ConstraintFailed, SequenceError

if TYPE_CHECKING:
    from torch import Tensor

# By a byte of a mask, what eight logits change by: to add this is several times faster than to fill by a mask of bits.
_CHANGES = np.where(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), 0, -np.inf)
_CHANGES = _CHANGES.astype(np.float32)


class OutputConstraint:
    """The effect: tokens that the constraint doesn't allow become -inf."""

    def is_used_by(self, sequence: Sequence) -> bool:
        """Whether the request constrains its output."""
        return sequence.constraint is not None

    def change_row(self, row: Row, sequence: Sequence) -> None:
        """Forbid tokens. Raises ConstraintFailed."""
        if sequence.constraint is not None and not sequence.constraint.is_free:
            row += _changes(sequence.constraint, len(row))

    def change_rows(
        self, logits: Tensor, sequences: abc.Sequence[Sequence], rows: abc.Sequence[int], to_device: ToDevice
    ) -> abc.Mapping[int, SequenceError]:
        """Forbid tokens of each row; a row whose constraint raises fails."""
        failures: dict[int, SequenceError] = {}
        # Words of bits are 32 times less to bring to a device; a CPU adds floats faster than it takes bits apart.
        is_on_cpu = logits.device.type == "cpu"
        constrained: list[int] = []
        masks: list[NDArray[Any]] = []
        for row in rows:
            constraint = sequences[row].constraint
            if constraint is None or constraint.is_free:
                continue
            try:
                masks.append((_changes if is_on_cpu else _words)(constraint, logits.shape[1]))
                constrained.append(row)
            except ConstraintFailed as failure:
                failures[row] = failure
        if constrained:
            added = to_device(np.stack(masks))
            if not is_on_cpu:
                added = _apart(added, logits, to_device)[:, : logits.shape[1]]
            logits.index_add_(0, to_device(np.array(constrained)), added)
        return failures

    def release(self, sequence: Sequence) -> None:
        """Drop nothing: the constraint's state is the sequence's."""


def _words(constraint: ConstraintState, vocab_size: int) -> NDArray[np.int32]:
    """Which tokens are allowed, as `ConstraintState.fill_mask` has them.

    Raises ConstraintFailed for whatever the constraint raises: it is foreign code, which may even panic.
    """
    words = np.zeros(-(-vocab_size // 32), dtype=np.int32)
    try:
        constraint.fill_mask(words)
    except BaseException as error:
        raise ConstraintFailed("the output constraint failed") from error
    return words


def _changes(constraint: ConstraintState, vocab_size: int) -> NDArray[np.float32]:
    """What to add to each logit [vocabulary]: 0 or, where the token isn't allowed, minus infinity.

    Raises ConstraintFailed as `_words` does.
    """
    words = _words(constraint, vocab_size)
    changes: NDArray[np.float32] = _CHANGES.take(words.view(np.uint8), axis=0).reshape(-1)[:vocab_size]
    return changes


def _apart(words: Tensor, logits: Tensor, to_device: ToDevice) -> Tensor:
    """By the bits of `words` [rows, words]: 0 where a bit is set, else minus infinity, [rows, 32 * words]."""
    bits = words[:, :, None] >> to_device(np.arange(32, dtype=np.int32)) & 1
    return logits.new_zeros(bits.shape).masked_fill_(bits == 0, -math.inf).flatten(1)


def settle(
    sequences: abc.Sequence[Sequence], token_ids: list[int], failures: abc.Container[int]
) -> dict[int, ConstraintFailed]:
    """Replace, in place, those drawn tokens with which a constraint couldn't be met in time; return what fails by it.

    Rows with `failures`, or a negative token, have none.
    """
    failed: dict[int, ConstraintFailed] = {}
    for index, sequence in enumerate(sequences):
        if sequence.constraint is not None and token_ids[index] >= 0 and index not in failures:
            try:
                token_ids[index] = sequence.settle(token_ids[index])
            except ConstraintFailed as failure:
                failed[index] = failure
    return failed


def no_token(sequence: Sequence) -> SequenceError:
    """What stands for a row without a finite logit, or with one that is no number."""
    if sequence.constraint is not None:
        return ConstraintFailed("the output constraint allows no token")
    return SequenceError("the model's logits are not finite")
