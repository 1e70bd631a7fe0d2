"""Attention over the cache is softmax over each sequence's own context, for every way of reading the contexts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from service.engine.models.attention.attention import AttentionPlan
from service.engine.models.attention.inputs import Inputs
from service.engine.models.attention.kv_cache import CacheShape, KVCache
from service.engine.models.attention.scores import Scores
from tests.engine.folders.tiny_models import BLOCK_SIZE, NUM_BLOCKS, Part, batch_of

NUM_HEADS, NUM_KV_HEADS = 4, 2
CPU = torch.device("cpu")
CASES = {
    "decodes": [(29, 30, [0, 1, 2, 3]), (32, 33, [20, 9, 21, 8, 22]), (0, 1, [30])],
    "one decode": [(29, 30, [3, 2, 1, 0])],
    "chunks": [(0, 9, [20, 21]), (13, 40, [39, 24, 38, 25, 37]), (7, 12, [4, 5])],
    "decodes and chunks": [(29, 30, [0, 1, 2, 3]), (3, 9, [20, 21]), (40, 41, [27, 36, 28, 35, 29, 34])],
}


def expected(queries: Tensor, keys: Tensor, values: Tensor, start: int, window: int | None) -> Tensor:
    """Return attention [tokens, heads, head dim] of one sequence, head by head; queries begin at position `start`."""
    rows = torch.arange(start, start + len(queries))[:, None]
    positions = torch.arange(len(keys))
    is_seen = (positions <= rows) & (positions > rows - window if window else True)
    heads = []
    for head in range(NUM_HEADS):
        own = head * NUM_KV_HEADS // NUM_HEADS
        scores = queries[:, head] @ keys[:, own].T * 0.1
        heads.append(scores.masked_fill(~is_seen, -torch.inf).softmax(dim=-1) @ values[:, own])
    return torch.stack(heads, dim=1)


@pytest.mark.parametrize("window", [None, 11], ids=["full", "window"])
# With 16 floats per head, contexts are short and are padded together. With 4,096, a context of 5 tokens is too long.
@pytest.mark.parametrize("head_dim", [16, 4096], ids=["padded", "one by one"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_attention_equals_softmax(case: Any, head_dim: int, window: int | None) -> None:
    """Decodes are correct padded or one by one, with adjacent or scattered blocks, with and without a window."""
    torch.manual_seed(0)
    cache = KVCache(CacheShape(1, NUM_KV_HEADS, head_dim, head_dim, torch.float32), NUM_BLOCKS, BLOCK_SIZE, CPU)
    batch = batch_of([Part([0] * end, start, end, table) for start, end, table in case])
    stored = []
    for _, end, table in case:
        whole = Inputs.from_batch(batch_of([Part([0] * end, 0, end, table)]), BLOCK_SIZE, CPU)
        stored.append(torch.randn(end, 2 * NUM_KV_HEADS, head_dim) / head_dim**0.5)
        cache.write(0, whole.slots, stored[-1])
    queries = torch.randn(len(batch.token_ids), NUM_HEADS, head_dim)
    attended = AttentionPlan(cache, batch, Scores(0.1), window)(0, queries)
    first = 0
    for (start, end, _), each in zip(case, stored, strict=True):
        mine = slice(first, first + end - start)
        keys, values = each.chunk(2, dim=1)
        torch.testing.assert_close(attended[mine], expected(queries[mine], keys, values, start, window))
        first = mine.stop
