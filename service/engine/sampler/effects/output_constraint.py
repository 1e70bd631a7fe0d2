"""The output constraint's effect on the logits, and the tokens that replace drawn ones."""

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

# The changes of eight logits by a byte of a mask: adding them is several times faster than filling by a mask of bits.
_CHANGES = np.where(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), 0, -np.inf)
_CHANGES = _CHANGES.astype(np.float32)


class OutputConstraint:
    """The effect: tokens that the constraint doesn't allow become -inf."""

    def is_used_by(self, sequence: Sequence) -> bool:
        """Return True if the request constrains its output."""
        return sequence.constraint is not None

    def change_row(self, row: Row, sequence: Sequence) -> None:
        """Forbid tokens. Raise ConstraintFailed if the constraint fails."""
        if sequence.constraint is not None and not sequence.constraint.is_free:
            row += _changes(sequence.constraint, len(row))

    def change_rows(
        self, logits: Tensor, sequences: abc.Sequence[Sequence], rows: abc.Sequence[int], to_device: ToDevice
    ) -> abc.Mapping[int, SequenceError]:
        """Forbid tokens of each row; a row whose constraint raises fails."""
        failures: dict[int, SequenceError] = {}
        # A mask of bits is 32 times smaller to copy to a device; a CPU adds floats faster than it unpacks bits.
        is_on_cpu = logits.device.type == "cpu"
        constrained: list[int] = []
        masks: list[NDArray[Any]] = []
        for row in rows:
            constraint = sequences[row].constraint
            if constraint is None or constraint.is_free:
                continue
            try:
                masks.append((_changes if is_on_cpu else _mask)(constraint, logits.shape[1]))
                constrained.append(row)
            except ConstraintFailed as failure:
                failures[row] = failure
        if constrained:
            added = to_device(np.stack(masks))
            if not is_on_cpu:
                added = _unpacked(added, logits, to_device)[:, : logits.shape[1]]
            logits.index_add_(0, to_device(np.array(constrained)), added)
        return failures

    def release(self, sequence: Sequence) -> None:
        """Drop nothing: the constraint's state belongs to the sequence."""


def _mask(constraint: ConstraintState, vocab_size: int) -> NDArray[np.int32]:
    """Return the mask of allowed tokens, in the form of `ConstraintState.fill_mask`.

    Raise ConstraintFailed if the constraint raises anything: it is foreign code, which may even panic.
    """
    mask = np.zeros(-(-vocab_size // 32), dtype=np.int32)
    try:
        constraint.fill_mask(mask)
    except BaseException as error:
        raise ConstraintFailed("the output constraint failed") from error
    return mask


def _changes(constraint: ConstraintState, vocab_size: int) -> NDArray[np.float32]:
    """Return the numbers to add to the logits [vocabulary]: 0, or minus infinity if the token isn't allowed.

    Raise ConstraintFailed if the constraint raises anything.
    """
    mask = _mask(constraint, vocab_size)
    changes: NDArray[np.float32] = _CHANGES.take(mask.view(np.uint8), axis=0).reshape(-1)[:vocab_size]
    return changes


def _unpacked(mask: Tensor, logits: Tensor, to_device: ToDevice) -> Tensor:
    """Return 0 for each set bit of `mask` [rows, words], and minus infinity for the others: [rows, 32 * words]."""
    bits = mask[:, :, None] >> to_device(np.arange(32, dtype=np.int32)) & 1
    return logits.new_zeros(bits.shape).masked_fill_(bits == 0, -math.inf).flatten(1)


def replace_tokens(
    sequences: abc.Sequence[Sequence], token_ids: list[int], failures: abc.Container[int]
) -> dict[int, ConstraintFailed]:
    """Replace, in place, the drawn tokens after which a constraint could not be met in time; return the failed rows.

    Rows in `failures`, and those with a negative token, are skipped.
    """
    failed: dict[int, ConstraintFailed] = {}
    for index, sequence in enumerate(sequences):
        if sequence.constraint is not None and token_ids[index] >= 0 and index not in failures:
            try:
                token_ids[index] = sequence.replace_token(token_ids[index])
            except ConstraintFailed as failure:
                failed[index] = failure
    return failed


def no_token(sequence: Sequence) -> SequenceError:
    """Return the error of a row that has no finite logit, or one that is not a number."""
    if sequence.constraint is not None:
        return ConstraintFailed("the output constraint allows no token")
    if sequence.request.sampling.allowed_token_ids:
        return ConstraintFailed("none of the allowed tokens may be drawn: the minimal length forbids those that end")
    return SequenceError("the model's logits are not finite")
