"""Paged attention, whose order of sums depends only on a row's position: alone, in a batch or in a chunk, same bits.

A context is divided into parts of `split` tokens. Each part is attended to by itself, and the parts are merged in
ascending order. A sequence's only new token is computed by several programs, one or more parts each, whose results a
second kernel merges; other rows are computed by programs that go through all parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from service.engine.models.attention.page_cache import PageCache
from service.engine.models.attention.paged_inputs import PagedInputs
from service.engine.models.attention.scores import Scores
from service.engine.models.cuda.products import precision
from service.engine.models.cuda.programs import attention as programs

_LEAST_SPLIT = 256  # tokens
_MOST_SPLITS = 64  # of a context, which bounds the memory for their results
_ENOUGH_PROGRAMS = 264  # for devices with about 130 processors
_HALF = 2  # bytes of float16 and bfloat16
_WIDE_HEAD = 128  # heads with more numbers take more threads a program, and fewer tiles are loaded ahead


@dataclass(frozen=True, slots=True)
class _Tiles:
    """The rows of a program, which are new tokens times the heads of one kv head, its keys at a time, and its warps.

    A row's bits depend on the keys only (seen on Hopper).
    """

    rows: int
    warps: int
    decode_rows: int
    decode_warps: int
    keys: int
    stages: int


def _tiles(width: int, dtype: torch.dtype) -> _Tiles:
    if width > _WIDE_HEAD or dtype.itemsize > _HALF:
        return _Tiles(64, 8, 64, 8, 32, 2)
    return _Tiles(128, 8, 16, 2, 64, 3)


class PagedAttention:
    """Attention over pages, for contexts of at most `max_context` tokens."""

    def __init__(self, max_context: int) -> None:
        self._split = max(_LEAST_SPLIT, triton.next_power_of_2(triton.cdiv(max_context, _MOST_SPLITS)))

    def __call__(
        self,
        queries: Tensor,
        cache: PageCache,
        layer: int,
        inputs: PagedInputs,
        *,
        scores: Scores,
        window: int | None,
        sinks: Tensor | None,
    ) -> Tensor:
        """Return the attention of `queries` [tokens, heads, head dim], in their shape. Heads and numbers are adjacent.

        `sinks` [heads] are the scores of a position that all queries see and that has no value.
        """
        keys, values = cache.pages(layer)
        num_tokens, num_heads, dim = queries.shape
        num_kv_heads = keys.shape[2]
        result = torch.empty(num_tokens, num_heads, dim, dtype=queries.dtype, device=queries.device)
        width = max(triton.next_power_of_2(dim), 16)
        tiles = _tiles(width, queries.dtype)
        same: dict[str, Any] = {
            "PAGE": cache.block_size, "WINDOW": window or 0, "HAS_CAP": scores.softcap is not None, "DIM": dim,
            "WIDTH": width, "TILE_KEYS": tiles.keys, "SPLIT": self._split, "PRECISION": precision(queries.dtype),
            "num_stages": tiles.stages,
        }  # fmt: skip
        strides = (queries.stride(0), keys.stride(1), inputs.block_tables.stride(0))
        numbers = (scores.scale, scores.softcap or 1.0)
        num_sequences, group = len(inputs.context_lengths), num_heads // num_kv_heads
        if inputs.max_queries > 1:
            padded = triton.next_power_of_2(group)
            tile_rows = max(tiles.rows, padded)
            num_tiles = num_tokens // (tile_rows // padded) + num_sequences
            programs.attend_rows[num_tiles, num_kv_heads](
                queries, keys, values, result, queries if sinks is None else sinks,
                inputs.block_tables, inputs.query_offsets, inputs.context_lengths, num_sequences, *numbers, *strides,
                GROUP=group, PADDED_GROUP=padded, NUM_HEADS=num_heads, HAS_SINKS=sinks is not None,
                TILE_ROWS=tile_rows, num_warps=tiles.warps, **same,
            )  # fmt: skip
        if inputs.has_single_queries:
            most_parts = triton.cdiv(inputs.max_context, self._split)
            totals = queries.new_empty(num_sequences * num_heads * most_parts, dim, dtype=torch.float32)
            tops, sums = queries.new_empty(2, num_sequences * num_heads * most_parts, dtype=torch.float32)
            num_programs = min(most_parts, triton.cdiv(_ENOUGH_PROGRAMS, num_sequences * num_kv_heads))
            programs.attend_decodes[num_sequences, num_kv_heads, num_programs](
                queries, keys, values, totals, tops, sums,
                inputs.block_tables, inputs.query_offsets, inputs.context_lengths, *numbers, *strides, most_parts,
                GROUP=group, NUM_HEADS=num_heads, TILE_ROWS=max(tiles.decode_rows, triton.next_power_of_2(group)),
                num_warps=tiles.decode_warps, **same,
            )  # fmt: skip
            programs.merge_parts[num_sequences, num_heads](
                totals, tops, sums, result, queries if sinks is None else sinks,
                inputs.query_offsets, inputs.context_lengths, most_parts,
                NUM_HEADS=num_heads, HAS_SINKS=sinks is not None, WINDOW=window or 0, DIM=dim, WIDTH=width,
                SPLIT=self._split,
            )  # fmt: skip
        return result
