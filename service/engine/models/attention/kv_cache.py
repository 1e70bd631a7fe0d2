"""The blocked KV cache of the torch backends. It is written by slot, and read in place or copied by block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from service.engine.core.batch import Int32s


@dataclass(frozen=True, slots=True)
class CacheShape:
    """The contents of one slot, which stores one token, in each layer."""

    num_layers: int
    num_kv_heads: int
    head_dim: int  # the size of keys
    value_dim: int
    dtype: torch.dtype  # the compute type of attention
    stored: torch.dtype | None = None  # the type of the slots; None: `dtype`

    @property
    def bytes_per_slot(self) -> int:
        """The bytes of one token's keys and values in all layers."""
        return (
            self.num_layers
            * self.num_kv_heads
            * (self.head_dim + self.value_dim)
            * (self.stored or self.dtype).itemsize
        )

    @property
    def pair_dim(self) -> int:
        """The dimension of [tokens, kv heads, dim] along which keys and values are concatenated."""
        return 1 if self.head_dim == self.value_dim else 2


class KVCache:
    """The keys and values of `num_blocks` blocks of `block_size` slots.

    The tensor has the shape [layers, 2 * kv heads, slots, head dim], keys first: one write stores keys and values, one
    read gathers both, and a head's slots are contiguous in memory, which attention reads up to three times faster than
    slots that hold all heads (8 heads of 128, 2,048 slots). If values and keys differ in size, a slot's key and value
    are concatenated instead: [layers, kv heads, slots, head dim + value dim]. The tensor is initialized to zeros,
    because a batch of unequal contexts reads past the shorter ones, and a masked value must still be a number. Reads
    return the stored type; `Scores` converts it.
    """

    def __init__(self, shape: CacheShape, num_blocks: int, block_size: int, device: torch.device) -> None:
        self.shape = shape
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.device = device
        num_heads, width, num_slots = shape.num_kv_heads, shape.head_dim, num_blocks * block_size
        if shape.pair_dim == 1:
            num_heads *= 2
        else:
            width += shape.value_dim
        self._slots = torch.zeros(
            shape.num_layers, num_heads, num_slots, width, dtype=shape.stored or shape.dtype, device=device
        )
        self._slots_by_layer = self._slots.unbind(0)
        self._blocks_by_layer = self._slots.view(shape.num_layers, num_heads, num_blocks, -1).unbind(0)

    def write(self, layer: int, slots: Tensor, keys_values: Tensor) -> None:
        """Store `keys_values` [tokens, 2 * kv heads, head dim], or joined in `pair_dim`, at `slots` [tokens].

        Values beyond float16's range are clamped to it; NaN is kept.
        """
        if (stored := self._slots.dtype) != keys_values.dtype:
            if stored == torch.float16:
                limit = torch.finfo(stored).max
                keys_values = keys_values.clamp(-limit, limit)
            keys_values = keys_values.to(stored)
        self._slots_by_layer[layer].index_copy_(1, slots, keys_values.transpose(0, 1))

    def view(self, first_block: int, num_slots: int) -> list[tuple[Tensor, Tensor]]:
        """Return views of the keys and values of the contiguous slots from `first_block` on, for each layer.

        Each tensor has the shape [1, kv heads, num_slots, head or value dim].
        """
        slots = self._slots.narrow(2, first_block * self.block_size, num_slots).unsqueeze(1)
        keys, values = self._split_pairs(slots, 1)
        return list(zip(keys.unbind(0), values.unbind(0), strict=True))

    def gather(self, layer: int, block_ids: Tensor, num_rows: int) -> tuple[Tensor, Tensor]:
        """Copy whole blocks: `block_ids` holds `num_rows` rows of equal length, flattened.

        Each tensor has the shape [num_rows, kv heads, slots of a row, head or value dim].
        """
        blocks = self._blocks_by_layer[layer].index_select(1, block_ids)
        rows = blocks.view(blocks.shape[0], num_rows, -1, self._slots.shape[3]).transpose(0, 1)
        return self._split_pairs(rows, 0)

    def _split_pairs(self, pairs: Tensor, num_leading: int) -> tuple[Tensor, Tensor]:
        """Split [(leading,) rows, heads, slots, dim] into keys and values."""
        dim = num_leading + (1 if self.shape.pair_dim == 1 else 3)
        first = self.shape.num_kv_heads if self.shape.pair_dim == 1 else self.shape.head_dim
        keys, values = pairs.tensor_split((first,), dim)
        return keys, values


def is_contiguous(ids: Int32s) -> bool:
    """Return True if the ids, of blocks or of rows, are contiguous and ascending."""
    first, last, length = ids[0], ids[-1], len(ids)
    return bool(last - first == length - 1 and (ids == np.arange(first, first + length)).all())
