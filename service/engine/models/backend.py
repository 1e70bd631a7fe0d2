"""What the model runner asks of a model.

Owns the interface and nothing behind it. A backend keeps its weights and its cache in whatever layout suits its device;
the runner knows only how many bytes a block costs.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from service.engine.models.batch import Batch


class Backend(Protocol):
    """A causal language model over a paged cache. Only the engine's thread calls it."""

    bytes_per_slot: int  # of cache, for one token in all layers

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """Make the cache, once, before the first step."""

    def forward(self, batch: Batch) -> Tensor:
        """Store the batch's keys and values and return the logits, float32 [output rows, vocabulary]."""
