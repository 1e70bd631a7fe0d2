"""The cost of a sequence: what it has used of the engine's time and of its cache."""

from __future__ import annotations


class SequenceCost:
    """A sequence's share of the time of its steps, and the cache blocks that it held times seconds."""

    def __init__(self) -> None:
        self.compute_s = 0.0
        self.block_s = 0.0
        self._billed_until: float | None = None  # for its blocks; None if it holds none

    def add_step(self, compute_s: float, num_blocks: int, began: float, ended: float) -> None:
        """Add its share of a step, and the time for which it has held `num_blocks` blocks since the previous step."""
        self.compute_s += compute_s
        self.block_s += num_blocks * (ended - (began if self._billed_until is None else self._billed_until))
        self._billed_until = ended

    def lose_blocks(self) -> None:
        """Stop counting blocks until the next step."""
        self._billed_until = None
