"""The recurrent state of a running sequence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class SequenceState:
    """The state of a running sequence, and the slots that a step uses.

    A step reads and updates the state in `slot`. The state after the step's last `num_last` tokens goes to `last_slot`
    instead, so that `slot` keeps the state before them.
    """

    slot: int
    num_last: int = 0
    last_slot: int = -1
    content: bytes = b""  # the hash of the prefix whose state `slot` has before `num_last` tokens; empty: not cached
    is_cached: bool = False  # `slot` belongs to a checkpoint, and can't be written
    rolling: bytes = b""  # the content of the last checkpoint of its answer
