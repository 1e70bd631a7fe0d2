"""A device's KV cache, in the layout that paged attention kernels read in place."""

from __future__ import annotations

import torch
from torch import Tensor

from service.engine.models.attention.kv_cache import CacheShape


class PageCache:
    """The keys and values of `num_blocks` pages of `block_size` tokens, and of one scratch page.

    A layer's tensor has the shape [2, pages, page size, kv heads, head dim], keys first. The padding rows of a batch
    write to the scratch page, the last one. The memory is initialized to zeros, because a kernel may multiply masked
    values.
    """

    def __init__(self, shape: CacheShape, num_blocks: int, block_size: int, device: torch.device) -> None:
        """Keys and values must have the same size."""
        self.shape = shape
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.device = device
        sizes = (shape.num_layers, 2, num_blocks + 1, block_size, shape.num_kv_heads, shape.head_dim)
        memory = torch.zeros(sizes, dtype=shape.stored or shape.dtype, device=device)
        self._pages = [layer.unbind(0) for layer in memory.unbind(0)]
        slots = memory.view(shape.num_layers, 2, -1, shape.num_kv_heads, shape.head_dim)
        self._slots = [layer.unbind(0) for layer in slots.unbind(0)]

    @property
    def scratch_block(self) -> int:
        """The page after the last page of sequences."""
        return self.num_blocks

    def slots(self, layer: int) -> tuple[Tensor, Tensor]:
        """Return views of a layer's keys and values, [slots, kv heads, head dim] each."""
        keys, values = self._slots[layer]
        return keys, values

    def pages(self, layer: int) -> tuple[Tensor, Tensor]:
        """Return views of a layer's keys and values, [pages, page size, kv heads, head dim] each."""
        keys, values = self._pages[layer]
        return keys, values
