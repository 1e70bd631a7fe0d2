"""Attention of a batch over the paged cache.

Owns how the contexts of one step are read: the plan is made once a step and run once a layer. Only the engine's thread
calls it. It knows no model: a layer gives queries, the plan gives what they attend to.

Three ways to read a context, measured on two Ice Lake cores:
- adjacent blocks are looked at in place; it costs about 25 µs a sequence and layer over what the memory must deliver;
- decodes with short contexts are collected into one padded copy and share one kernel call, which is up to five times
  faster than one call each; the copy costs more than the calls from about 256 KiB of keys and values a sequence;
- scattered blocks are copied.
The query heads of one kv head become the rows of one query where new tokens are few, so that grouped heads repeat no
keys: that is up to twice as fast for 1 to 8 tokens, and no faster from 16 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from service.engine.kv_cache import KVCache, is_run
from service.engine.models.batch import Batch, Span

_MAX_GROUPED_QUERIES = 8  # of one sequence
_MAX_PADDED_BYTES = 256 * 1024  # of one sequence's keys and values in one layer


class _Reader(Protocol):
    """Attention of some rows of the batch: queries [rows, heads, head dim] of all rows in, its own rows out."""

    rows: slice | Tensor

    def __call__(self, layer: int, queries: Tensor) -> Tensor: ...


class AttentionPlan:
    """How each row of one batch attends. `scale` multiplies the scores; `window` limits how far back a row sees."""

    def __init__(self, cache: KVCache, batch: Batch, scale: float, window: int | None = None) -> None:
        self._readers = _plan(cache, batch.spans, batch.token_ids.device, scale, window)

    def __call__(self, layer: int, queries: Tensor) -> Tensor:
        """Attend with `queries` [tokens, heads, head dim]; the result has the same shape."""
        if len(self._readers) == 1:
            return self._readers[0](layer, queries)
        result = torch.empty_like(queries)
        for reader in self._readers:
            result[reader.rows] = reader(layer, queries)
        return result


def _plan(
    cache: KVCache, spans: Sequence[Span], device: torch.device, scale: float, window: int | None
) -> list[_Reader]:
    bytes_per_slot = cache.shape.bytes_per_slot // cache.shape.num_layers
    max_padded = _MAX_PADDED_BYTES // bytes_per_slot if device.type == "cpu" else 1 << 62
    decodes = [span for span in spans if span.num_queries == 1 and span.context_length <= max_padded]
    if len(decodes) < 2:
        decodes = []
    readers: list[_Reader] = []
    if decodes:
        readers.append(_PaddedDecodes(cache, decodes, device, scale, window))
    padded = {span.query_start for span in decodes}
    readers.extend(_OneSequence(cache, span, device, scale, window) for span in spans if span.query_start not in padded)
    return readers


def _used_blocks(cache: KVCache, span: Span) -> Sequence[int]:
    return span.block_table[: -(-span.context_length // cache.block_size)]


def _split_heads(queries: Tensor, num_kv_heads: int) -> Tensor:
    """Turn [sequences, heads, head dim] into [sequences, kv heads, heads of one kv head, head dim]."""
    num_sequences, num_heads, head_dim = queries.shape
    return queries.reshape(num_sequences, num_kv_heads, num_heads // num_kv_heads, head_dim)


def _group_heads(queries: Tensor, num_kv_heads: int) -> Tensor:
    """Turn [tokens, heads, head dim] into [1, kv heads, tokens * heads of one kv head, head dim]."""
    return _split_heads(queries, num_kv_heads).transpose(0, 1).reshape(1, num_kv_heads, -1, queries.shape[2])


def _ungroup_heads(attended: Tensor, num_tokens: int) -> Tensor:
    """The way back from `_group_heads`."""
    _, num_kv_heads, _, head_dim = attended.shape
    return attended.view(num_kv_heads, num_tokens, -1, head_dim).transpose(0, 1).reshape(num_tokens, -1, head_dim)


class _PaddedDecodes:
    """One new token each of several sequences, over a copy of their contexts padded to the longest."""

    def __init__(
        self,
        cache: KVCache,
        spans: Sequence[Span],
        device: torch.device,
        scale: float,
        window: int | None,
    ) -> None:
        self._cache = cache
        self._num_rows = len(spans)
        self._scale = scale
        tables = [list(_used_blocks(cache, span)) for span in spans]
        longest = max(len(table) for table in tables)
        padded = [block_id for table in tables for block_id in table + table[:1] * (longest - len(table))]
        self._block_ids = torch.tensor(padded, device=device)
        ends = torch.tensor([span.context_length for span in spans], device=device).view(-1, 1)
        places = torch.arange(longest * cache.block_size, device=device)
        hidden = places >= ends
        if window is not None:
            hidden |= places < ends - window
        self._mask = torch.zeros(hidden.shape, dtype=cache.shape.dtype, device=device)
        self._mask = self._mask.masked_fill_(hidden, -torch.inf)[:, None, None]
        self.rows: slice | Tensor = _rows(spans, device)

    def __call__(self, layer: int, queries: Tensor) -> Tensor:
        keys, values = self._cache.gather(layer, self._block_ids, self._num_rows)
        mine = _split_heads(queries[self.rows], keys.shape[1])
        attended = scaled_dot_product_attention(mine, keys, values, attn_mask=self._mask, scale=self._scale)
        return attended.reshape(self._num_rows, queries.shape[1], queries.shape[2])


def _rows(spans: Sequence[Span], device: torch.device) -> slice | Tensor:
    """The rows of decodes; a slice if they are adjacent, since it makes no copy."""
    starts = [span.query_start for span in spans]
    return slice(starts[0], starts[-1] + 1) if is_run(starts) else torch.tensor(starts, device=device)


class _OneSequence:
    """The new tokens of one sequence, over its blocks in place if they are a run, over a copy otherwise."""

    def __init__(self, cache: KVCache, span: Span, device: torch.device, scale: float, window: int | None) -> None:
        self._cache = cache
        self._scale = scale
        self._num_slots = span.context_length
        self._num_queries = span.num_queries
        self.rows: slice | Tensor = slice(span.query_start, span.query_start + span.num_queries)
        blocks = _used_blocks(cache, span)
        self._views = cache.view(blocks[0], span.context_length) if is_run(blocks) else None
        self._block_ids = None if self._views else torch.tensor(blocks, device=device)
        self._mask, self._is_causal = _visibility(span, window, cache.shape.dtype, device)
        self._is_grouped = span.num_queries <= _MAX_GROUPED_QUERIES and not self._is_causal

    def __call__(self, layer: int, queries: Tensor) -> Tensor:
        if self._views is not None:
            keys, values = self._views[layer]
        else:
            assert self._block_ids is not None  # noqa: S101
            keys, values = self._cache.gather(layer, self._block_ids, 1)
            keys, values = keys[:, :, : self._num_slots], values[:, :, : self._num_slots]
        mine = queries[self.rows]
        if self._is_grouped:
            grouped = _group_heads(mine, keys.shape[1])
            num_heads_each = grouped.shape[2] // self._num_queries
            if self._mask is not None and len(self._mask) == self._num_queries:  # in the first layer
                self._mask = self._mask.repeat_interleave(num_heads_each, 0)
            attended = scaled_dot_product_attention(grouped, keys, values, attn_mask=self._mask, scale=self._scale)
            return _ungroup_heads(attended, self._num_queries)
        attended = scaled_dot_product_attention(
            mine.transpose(0, 1).unsqueeze(0),
            keys,
            values,
            attn_mask=self._mask,
            is_causal=self._is_causal,
            scale=self._scale,
            enable_gqa=keys.shape[1] != mine.shape[1],
        )
        return attended[0].transpose(0, 1)


def _visibility(span: Span, window: int | None, dtype: torch.dtype, device: torch.device) -> tuple[Tensor | None, bool]:
    """What a sequence's new tokens see, as an additive mask or None, and whether the kernel's causal rule is enough."""
    reaches_back = window is not None and span.context_length > window
    if span.num_queries == 1 and not reaches_back:
        return None, False
    if span.num_queries == span.context_length and not reaches_back:
        return None, True
    rows = torch.arange(span.context_length - span.num_queries, span.context_length, device=device)[:, None]
    places = torch.arange(span.context_length, device=device)
    hidden = places > rows
    if window is not None:
        hidden |= places <= rows - window
    mask = torch.zeros(hidden.shape, dtype=dtype, device=device)
    return mask.masked_fill_(hidden, -torch.inf), False
