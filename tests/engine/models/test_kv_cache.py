"""Keys and values that are written to the cache are read back, in place and by copy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from service.engine.models.attention.kv_cache import CacheShape, KVCache, is_contiguous

SHAPE = CacheShape(num_layers=2, num_kv_heads=3, head_dim=4, value_dim=4, dtype=torch.float32)
BLOCK_SIZE = 8


def cache_with(slots: list[int], layer: int = 1) -> tuple[KVCache, Tensor]:
    cache = KVCache(SHAPE, num_blocks=6, block_size=BLOCK_SIZE, device=torch.device("cpu"))
    written = torch.randn(len(slots), 2 * SHAPE.num_kv_heads, SHAPE.head_dim)
    cache.write(layer, torch.tensor(slots), written)
    return cache, written


def test_view_shows_what_was_written() -> None:
    """A run of blocks is viewed in place, keys first and then values, only in the layer that was written."""
    slots = list(range(16, 16 + 11))
    cache, written = cache_with(slots)
    other, (keys, values) = cache.view(2, 11)
    assert torch.equal(keys[0].transpose(0, 1), written[:, :3])
    assert torch.equal(values[0].transpose(0, 1), written[:, 3:])
    assert not other[0].any()
    assert not other[1].any()
    cache.write(1, torch.tensor([16]), written[5:6])
    assert torch.equal(keys[0, :, 0], written[5, :3])  # no copy


def test_gather_collects_rows_of_blocks() -> None:
    """Scattered blocks are returned in the requested order, one row per sequence."""
    cache, written = cache_with([*range(40, 48), *range(8, 16), *range(24, 32)])
    keys, values = cache.gather(1, torch.tensor([5, 1, 3, 5]), num_rows=2)
    assert keys.shape == values.shape == (2, 3, 16, 4)
    assert torch.equal(keys[0].transpose(0, 1), written[:16, :3])
    assert torch.equal(values[1].transpose(0, 1), torch.cat((written[16:], written[:8]))[:, 3:])


def test_bytes_per_slot_counts_keys_and_values() -> None:
    """A slot has two tensors of 3 heads of 4 floats in 2 layers."""
    assert SHAPE.bytes_per_slot == 2 * 3 * 4 * 4 * 2


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [([7], True), ([3, 4, 5], True), ([5, 4, 3], False), ([3, 5, 4, 6], False), ([0, 1, 3], False), ([2, 2], False)],
)
def test_is_contiguous(blocks: list[int], expected: bool) -> None:  # noqa: FBT001
    """A run's blocks are adjacent and ascending; first and last block alone do not suffice."""
    assert is_contiguous(np.array(blocks, np.int32)) is expected
