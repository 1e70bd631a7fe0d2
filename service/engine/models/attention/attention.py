"""Attention of a batch over the paged cache: a plan that is made once per step and run once per layer.

A context is read in one of three ways (measured on two Ice Lake cores):
- Adjacent blocks are read in place, which costs about 25 µs per sequence and layer in addition to the memory reads.
- Decodes with short contexts are gathered into one padded copy and share one kernel call, which is up to five times
  faster than one call each. From about 256 KiB of keys and values per sequence on, the copy costs more than the calls.
- Scattered blocks are copied.
With few new tokens, the query heads of one kv head become the rows of one query, so that keys are not repeated for
grouped heads. That is up to twice as fast for 1 to 8 tokens, and not faster from 16 tokens on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from service.engine.core.batch import Batch, Int32s
from service.engine.models.attention.kv_cache import KVCache, is_contiguous
from service.engine.models.attention.scores import Scores

_MAX_GROUPED_QUERIES = 8  # of one sequence
_MAX_PADDED_BYTES = 256 * 1024  # of one sequence's keys and values in one layer


class _Reader(Protocol):
    """The attention of some rows of the batch: it takes the queries of all rows and returns its own rows."""

    rows: slice | Tensor

    def __call__(self, layer: int, queries: Tensor, sinks: Tensor | None) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class _QueryRows:
    """One sequence's rows of a batch."""

    first: int  # the row of its first new token
    num_queries: int  # the number of its new tokens
    context_length: int
    block_ids: Int32s  # the blocks of its context
    images: tuple[slice, ...] = ()  # positions of images whose tokens see each other, those among the new tokens

    @classmethod
    def from_batch(cls, batch: Batch, index: int, block_size: int) -> _QueryRows:
        first, end = batch.row_offsets[index : index + 2].tolist()
        length = batch.context_lengths[index].item()
        images = tuple(
            slice(rows.image.start, rows.image.start + rows.offset + rows.num_tokens)
            for rows in batch.images
            if rows.sequence == index
        )
        return cls(first, end - first, length, batch.block_tables[index, : -(-length // block_size)], images)


class AttentionPlan:
    """The attention of each row of one batch. `window` limits the number of tokens that a row attends to."""

    def __init__(self, cache: KVCache, batch: Batch, scores: Scores, window: int | None = None) -> None:
        self._num_values = cache.shape.value_dim
        self._readers = _plan(cache, batch, scores, window)

    def __call__(self, layer: int, queries: Tensor, sinks: Tensor | None = None) -> Tensor:
        """Return the attention [tokens, heads, value dim] of `queries` [tokens, heads, head dim].

        `sinks` [heads] are the layer's attention sinks; see `Scores`.
        """
        if len(self._readers) == 1:
            return self._readers[0](layer, queries, sinks)
        result = queries.new_empty(*queries.shape[:2], self._num_values)
        for reader in self._readers:
            result[reader.rows] = reader(layer, queries, sinks)
        return result


def _plan(cache: KVCache, batch: Batch, scores: Scores, window: int | None) -> list[_Reader]:
    """Return the readers of a batch's sequences: one for all short decodes, padded, and one for each other sequence."""
    bytes_per_slot = cache.shape.bytes_per_slot // cache.shape.num_layers
    max_padded = _MAX_PADDED_BYTES // bytes_per_slot if cache.device.type == "cpu" else np.iinfo(np.int32).max
    is_padded = (np.diff(batch.row_offsets) == 1) & (batch.context_lengths <= max_padded)
    padded = np.flatnonzero(is_padded)
    readers: list[_Reader] = []
    if len(padded) > 1:
        readers.append(_PaddedDecodes(cache, batch, padded, scores, window))
        others = np.flatnonzero(~is_padded).tolist()
    else:
        others = list(range(len(is_padded)))
    mine = (_QueryRows.from_batch(batch, index, cache.block_size) for index in others)
    readers.extend(_OneSequence(cache, each, scores, window) for each in mine)
    return readers


def _split_heads(queries: Tensor, num_kv_heads: int) -> Tensor:
    """Reshape [sequences, heads, head dim] to [sequences, kv heads, heads of one kv head, head dim]."""
    num_sequences, num_heads, head_dim = queries.shape
    return queries.reshape(num_sequences, num_kv_heads, num_heads // num_kv_heads, head_dim)


def _group_heads(queries: Tensor, num_kv_heads: int) -> Tensor:
    """Reshape [tokens, heads, head dim] to [1, kv heads, tokens * heads of one kv head, head dim]."""
    return _split_heads(queries, num_kv_heads).transpose(0, 1).reshape(1, num_kv_heads, -1, queries.shape[2])


def _ungroup_heads(attended: Tensor, num_tokens: int) -> Tensor:
    """Reverse `_group_heads`."""
    _, num_kv_heads, _, head_dim = attended.shape
    return attended.view(num_kv_heads, num_tokens, -1, head_dim).transpose(0, 1).reshape(num_tokens, -1, head_dim)


class _PaddedDecodes:
    """Decodes of several sequences, over a copy of their contexts that is padded to the longest."""

    def __init__(
        self, cache: KVCache, batch: Batch, sequences: npt.NDArray[np.intp], scores: Scores, window: int | None
    ) -> None:
        self._cache = cache
        self._num_rows = len(sequences)
        self._scores = scores
        lengths = batch.context_lengths[sequences]
        num_blocks = -(-int(lengths.max()) // cache.block_size)
        block_ids = batch.block_tables[sequences, :num_blocks].astype(np.int64)
        self._block_ids = torch.from_numpy(block_ids.reshape(-1)).to(cache.device)
        ends = torch.from_numpy(lengths).to(cache.device).view(-1, 1)
        positions = torch.arange(num_blocks * cache.block_size, device=cache.device)
        hidden = positions >= ends
        if window is not None:
            hidden |= positions < ends - window
        self._mask = torch.zeros(hidden.shape, dtype=cache.shape.dtype, device=cache.device)
        self._mask = self._mask.masked_fill_(hidden, -torch.inf)[:, None, None]
        self.rows: slice | Tensor = _rows(batch.row_offsets[sequences], cache.device)

    def __call__(self, layer: int, queries: Tensor, sinks: Tensor | None) -> Tensor:
        keys, values = self._cache.gather(layer, self._block_ids, self._num_rows)
        mine = _split_heads(queries[self.rows], keys.shape[1])
        attended = self._scores.attend(mine, keys, values, self._mask, sinks=sinks)
        return attended.reshape(self._num_rows, queries.shape[1], values.shape[3])


def _rows(starts: Int32s, device: torch.device) -> slice | Tensor:
    """Return the rows of decodes, as a slice if they are adjacent, because a slice makes no copy."""
    if is_contiguous(starts):
        return slice(int(starts[0]), int(starts[-1]) + 1)
    return torch.from_numpy(starts.astype(np.int64)).to(device)


class _OneSequence:
    """The new tokens of one sequence, over its blocks in place if they are contiguous, otherwise over a copy."""

    def __init__(self, cache: KVCache, mine: _QueryRows, scores: Scores, window: int | None) -> None:
        self._cache = cache
        self._scores = scores
        self._num_slots = mine.context_length
        self._num_queries = mine.num_queries
        self.rows: slice | Tensor = slice(mine.first, mine.first + mine.num_queries)
        self._views = self._block_ids = None
        if is_contiguous(mine.block_ids):
            self._views = cache.view(int(mine.block_ids[0]), mine.context_length)
        else:
            self._block_ids = torch.from_numpy(mine.block_ids.astype(np.int64)).to(cache.device)
        self._mask, self._is_causal = _visibility(mine, window, cache.shape.dtype, cache.device)
        self._is_grouped = mine.num_queries <= _MAX_GROUPED_QUERIES and not self._is_causal

    def __call__(self, layer: int, queries: Tensor, sinks: Tensor | None) -> Tensor:
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
            attended = self._scores.attend(grouped, keys, values, self._mask, sinks=sinks)
            return _ungroup_heads(attended, self._num_queries)
        alone = mine.transpose(0, 1).unsqueeze(0)
        attended = self._scores.attend(alone, keys, values, self._mask, is_causal=self._is_causal, sinks=sinks)
        return attended[0].transpose(0, 1)


def _visibility(
    mine: _QueryRows, window: int | None, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor | None, bool]:
    """Return the additive mask of a sequence's new tokens or None, and whether to use the kernel's causal mask."""
    reaches_back = window is not None and mine.context_length > window
    if mine.num_queries == 1 and not reaches_back:
        return None, False
    if mine.num_queries == mine.context_length and not reaches_back and not mine.images:
        return None, True
    rows = torch.arange(mine.context_length - mine.num_queries, mine.context_length, device=device)[:, None]
    positions = torch.arange(mine.context_length, device=device)
    hidden = positions > rows
    for image in mine.images:
        hidden[(rows[:, 0] >= image.start) & (rows[:, 0] < image.stop), image] = False
    if window is not None:
        hidden |= positions <= rows - window
    mask = torch.zeros(hidden.shape, dtype=dtype, device=device)
    return mask.masked_fill_(hidden, -torch.inf), False
