"""The tokens of one step as flat arrays: the one form in which work reaches a model."""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from service.engine.step import ScheduledSequence

Int32s: TypeAlias = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Batch:
    """New tokens of several sequences, one sequence after the other. All arrays are contiguous.

    A prefill, a part of one and a decode differ only in their numbers. Where a token's keys and values are stored
    follows from its sequence's blocks and its position; a backend lays out its own cache.
    """

    token_ids: Int32s  # [tokens]
    positions: Int32s  # [tokens], of each token in its sequence, from 0
    row_offsets: Int32s  # [sequences + 1]: sequence i has the tokens row_offsets[i] up to row_offsets[i + 1]
    context_lengths: Int32s  # [sequences], tokens after the step: those in the cache and the new ones
    block_tables: Int32s  # [sequences, most blocks of a context], each filled up with the sequence's own first block
    output_rows: Int32s  # [rows], the tokens whose logits are wanted, in ascending order


def make_batch(items: abc.Sequence[ScheduledSequence], block_size: int) -> Batch:
    """Lay the items' tokens flat, in their order. There must be at least one item."""
    token_ids: list[int] = []
    output_rows: list[int] = []
    row_offsets, context_lengths = [0], []
    for item in items:
        sequence = item.sequence
        start = sequence.num_computed_tokens
        context_length = start + item.num_new_tokens
        token_ids += sequence.token_ids[start:context_length]
        token_ids += item.draft
        context_length += len(item.draft)
        end = len(token_ids)
        row_offsets.append(end)
        context_lengths.append(context_length)
        output_rows += range(end - num_output_rows(item), end)
    offsets, lengths = np.array(row_offsets, np.int32), np.array(context_lengths, np.int32)
    # Where position 0 of each sequence is, or would be if it were in the batch.
    origins = np.repeat(offsets[1:] - lengths, np.diff(offsets))
    return Batch(
        token_ids=np.array(token_ids, np.int32),
        positions=np.arange(len(token_ids), dtype=np.int32) - origins,
        row_offsets=offsets,
        context_lengths=lengths,
        block_tables=_block_tables(items, context_lengths, block_size),
        output_rows=np.array(output_rows, np.int32),
    )


def num_output_rows(item: ScheduledSequence) -> int:
    """How many of the item's last tokens need a row of logits."""
    return item.num_new_tokens if item.sequence.needs_prompt_logprobs else int(item.samples) + len(item.draft)


def _block_tables(items: abc.Sequence[ScheduledSequence], context_lengths: list[int], block_size: int) -> Int32s:
    """Copied as bytes: from lists of numbers it would take a multiple of the time, the more the longer they are."""
    width = -(-max(context_lengths) // block_size)
    rows = []
    for item, context_length in zip(items, context_lengths, strict=True):
        table = item.sequence.block_table
        num_used = -(-context_length // block_size)
        rows.append(table[:num_used] + table[:1] * (width - num_used))
    return np.frombuffer(bytearray().join(rows), np.int32).reshape(len(items), width)
