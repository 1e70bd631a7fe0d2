"""The groups of a model's layers by the tokens that they attend to, and the cache blocks that a sequence needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Layers whose keys and values are in the same blocks. Each group has its own block table of a sequence."""

    window: int = 0  # tokens that a token attends to, including itself; 0: all

    def first_visible(self, num_computed_tokens: int) -> int:
        """Return the position of the first token that tokens from `num_computed_tokens` on attend to."""
        return max(0, num_computed_tokens + 1 - self.window) if self.window else 0

    def max_blocks(self, num_tokens: int, max_chunk: int, block_size: int) -> int:
        """Return the most blocks that hold what is visible of `num_tokens` tokens, computed in chunks of `max_chunk`.

        A chunk's own tokens are held, too, wherever it starts in a block.
        """
        num_blocks = -(-num_tokens // block_size)
        if not self.window:
            return num_blocks
        return min(num_blocks, -(-(self.window + max_chunk - 2) // block_size) + 1)


ONE_GROUP: Final = (CacheGroup(),)


def max_blocks(groups: Sequence[CacheGroup], num_tokens: int, max_chunk: int, block_size: int) -> int:
    """Return the most blocks that a sequence holds in all groups, see `CacheGroup.max_blocks`."""
    return sum(group.max_blocks(num_tokens, max_chunk, block_size) for group in groups)
