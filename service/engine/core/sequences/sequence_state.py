"""The recurrent state of a running sequence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class SequenceState:
    """The state of a running sequence, and the slots that a step uses.

    A step starts from the state in `source` and stores the new one in `slot`. The state after the step's last
    `num_last` tokens goes to `last_slot` instead, so that `slot` keeps the state before them.
    """

    slot: int
    source: int  # `slot`, or in the first step the slot of a checkpoint
    num_last: int = 0
    last_slot: int = -1
    content: bytes = b""  # the hash of the prefix whose state `slot` has before `num_last` tokens; empty for drafts
    rolling: bytes = b""  # the content of the last checkpoint of its answer
