"""The effect of an output constraint on a row of logits, and the mark of a row without any allowed token."""

from __future__ import annotations

from collections import abc

import numpy as np
from numpy.typing import NDArray

from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.core.sequences.sequence import Sequence
from service.generation.errors import ConstraintFailed, SequenceError

# By a byte of a mask, what eight logits change by: to add this is several times faster than to fill by a mask of bits.
_CHANGES = np.where(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), 0, -np.inf)
_CHANGES = _CHANGES.astype(np.float32)


def constraint_words(constraint: ConstraintState, vocab_size: int) -> NDArray[np.int32]:
    """Which tokens are allowed, as `ConstraintState.fill_mask` has them.

    Raises ConstraintFailed for whatever the constraint raises: it is foreign code, which may even panic.
    """
    words = np.zeros(-(-vocab_size // 32), dtype=np.int32)
    try:
        constraint.fill_mask(words)
    except BaseException as error:
        raise ConstraintFailed("the output constraint failed") from error
    return words


def constraint_changes(constraint: ConstraintState, vocab_size: int) -> NDArray[np.float32]:
    """What to add to each logit [vocabulary]: 0 or, where the token isn't allowed, minus infinity.

    Raises ConstraintFailed as `constraint_words`.
    """
    words = constraint_words(constraint, vocab_size)
    changes: NDArray[np.float32] = _CHANGES.take(words.view(np.uint8), axis=0).reshape(-1)[:vocab_size]
    return changes


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
