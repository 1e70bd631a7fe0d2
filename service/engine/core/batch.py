"""The tokens of one step as flat arrays, the input of every backend."""

from __future__ import annotations

from array import array
from collections import abc
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from service.engine.core.sequences.sequence import Sequence
from service.engine.core.step import ScheduledSequence
from service.generation.prompts.image import PromptImage

Int32s: TypeAlias = npt.NDArray[np.int32]


class ImageRows(NamedTuple):
    """The part of an image in a batch: the image's tokens from `offset` on are the batch's rows from `row` on."""

    image: PromptImage
    sequence: int  # in the batch, from 0
    row: int
    offset: int
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Batch:
    """The new tokens of several sequences, one sequence after another. All arrays are contiguous.

    A prefill, a chunk of one and a decode differ only in the number of tokens. The position of a token's keys and
    values in the cache follows from its sequence's block table and its position; each backend defines its own layout.
    A row of a block table is padded with its own first entry.
    """

    token_ids: Int32s  # [tokens]
    positions: Int32s  # [tokens], of each token in its sequence, from 0
    row_offsets: Int32s  # [sequences + 1]: sequence i has the tokens row_offsets[i] to row_offsets[i + 1] - 1
    context_lengths: Int32s  # [sequences], tokens after the step: cached and new ones
    block_tables: (
        Int32s  # [sequences, most blocks of a context], padded; [groups, sequences, …] of several cache groups
    )
    output_rows: Int32s  # [rows], the tokens whose logits are needed, in ascending order
    images: abc.Sequence[ImageRows] = ()  # images with tokens in the batch, in the tokens' order
    adapters: Int32s | None = None  # [sequences], the slot of each adapter, -1 for none; None if no sequence has one
    # [sequences, 4], the slot of the recurrent state that each sequence starts from, the slot of its new state, the
    # number of its last tokens whose state goes to another slot, and that slot; None if the model keeps no states
    states: Int32s | None = None

    @property
    def adapter_rows(self) -> dict[int, Int32s]:
        """The rows of each adapter in the batch, in ascending order, by the adapter's slot."""
        if self.adapters is None:
            return {}
        of_token = np.repeat(self.adapters, np.diff(self.row_offsets))
        return {
            int(slot): np.flatnonzero(of_token == slot).astype(np.int32)
            for slot in np.unique(self.adapters)
            if slot >= 0
        }


class BatchEntry(NamedTuple):
    """The new tokens of one sequence, from position `start` on. The last `num_output_rows` of them need logits."""

    token_ids: abc.Sequence[int]
    start: int
    block_tables: abc.Sequence[array[int]]  # of each cache group, which cover the new tokens
    num_output_rows: int
    images: abc.Sequence[PromptImage] = ()  # of the sequence


def make_batch(
    items: abc.Sequence[ScheduledSequence], block_size: int, adapter_slots: abc.Mapping[str, int] | None = None
) -> Batch:
    """Concatenate the items' tokens in their order. There must be at least one item.

    `adapter_slots` has the slots of the loaded adapters, by name.
    """
    sequences = [item.sequence for item in items]
    if all(map(_is_decode, items)):
        starts = [sequence.num_computed_tokens for sequence in sequences]
        batch = _lay_out_decodes(sequences, [sequence.token_ids[-1] for sequence in sequences], starts, block_size)
    else:
        batch = lay_out([_entry(item) for item in items], block_size)
    if items[0].sequence.state is not None:
        batch = replace(batch, states=_states(items))
    return _with_adapters(batch, sequences, adapter_slots)


def make_following_batch(
    sequences: abc.Sequence[Sequence], block_size: int, adapter_slots: abc.Mapping[str, int] | None = None
) -> Batch:
    """Return the batch of decodes that follow tokens which only the device knows; the batch has zeros for them."""
    starts = [len(sequence.token_ids) for sequence in sequences]
    batch = _lay_out_decodes(sequences, [0] * len(sequences), starts, block_size)
    return _with_adapters(batch, sequences, adapter_slots)


def lay_out(entries: abc.Sequence[BatchEntry], block_size: int) -> Batch:
    """Concatenate the entries' tokens in their order. There must be at least one entry, each with a token."""
    token_ids: list[int] = []
    output_rows: list[int] = []
    row_offsets, context_lengths = [0], []
    for entry in entries:
        token_ids += entry.token_ids
        end = len(token_ids)
        row_offsets.append(end)
        context_lengths.append(entry.start + len(entry.token_ids))
        output_rows += range(end - entry.num_output_rows, end)
    offsets, lengths = np.array(row_offsets, np.int32), np.array(context_lengths, np.int32)
    # The row that position 0 of each sequence has, or would have if it were in the batch.
    origins = np.repeat(offsets[1:] - lengths, np.diff(offsets))
    return Batch(
        token_ids=np.array(token_ids, np.int32),
        positions=np.arange(len(token_ids), dtype=np.int32) - origins,
        row_offsets=offsets,
        context_lengths=lengths,
        block_tables=_block_tables([entry.block_tables for entry in entries], context_lengths, block_size),
        output_rows=np.array(output_rows, np.int32),
        images=_image_rows(entries, row_offsets),
    )


def _with_adapters(
    batch: Batch, sequences: abc.Sequence[Sequence], adapter_slots: abc.Mapping[str, int] | None
) -> Batch:
    """Return the batch with the slots of its sequences' adapters, if there are any."""
    names = [sequence.request.adapter for sequence in sequences] if adapter_slots else []
    if adapter_slots is None or not any(names):
        return batch
    return replace(batch, adapters=np.array([adapter_slots[name] if name else -1 for name in names], np.int32))


def _lay_out_decodes(
    sequences: abc.Sequence[Sequence], token_ids: list[int], starts: list[int], block_size: int
) -> Batch:
    """Build the batch of a step that computes one token of each sequence, with its logits, as most steps do."""
    positions = np.array(starts, np.int32)
    rows = np.arange(len(sequences) + 1, dtype=np.int32)
    return Batch(
        token_ids=np.array(token_ids, np.int32),
        positions=positions,
        row_offsets=rows,
        context_lengths=positions + 1,
        block_tables=_block_tables(
            [sequence.block_tables for sequence in sequences], [start + 1 for start in starts], block_size
        ),
        output_rows=rows[:-1],
    )


def num_output_rows(item: ScheduledSequence) -> int:
    """Return how many of the item's last tokens need a row of logits."""
    return item.num_new_tokens if item.sequence.needs_prompt_logprobs else int(item.samples) + len(item.draft)


def _is_decode(item: ScheduledSequence) -> bool:
    """Return whether the item computes only the token that was sampled last."""
    return item.samples and item.num_new_tokens == 1 and not item.draft and item.sequence.first_token is not None


def _entry(item: ScheduledSequence) -> BatchEntry:
    sequence = item.sequence
    start = sequence.num_computed_tokens
    token_ids = [*sequence.token_ids[start : start + item.num_new_tokens], *item.draft]
    return BatchEntry(token_ids, start, sequence.block_tables, num_output_rows(item), sequence.request.images)


def _states(items: abc.Sequence[ScheduledSequence]) -> Int32s:
    found = [item.sequence.state for item in items]
    rows = [(state.source, state.slot, state.num_last, state.last_slot) for state in found if state is not None]
    return np.array(rows, np.int32)


def _image_rows(entries: abc.Sequence[BatchEntry], row_offsets: abc.Sequence[int]) -> tuple[ImageRows, ...]:
    """Return the rows of images that the step computes: for each image, its overlap with the entry's tokens."""
    rows = []
    for index, entry in enumerate(entries):
        for image in entry.images:
            start, end = max(image.start, entry.start), min(image.end, entry.start + len(entry.token_ids))
            if start < end:
                row = row_offsets[index] + start - entry.start
                rows.append(ImageRows(image, index, row, start - image.start, end - start))
    return tuple(rows)


def _block_tables(
    tables: abc.Sequence[abc.Sequence[array[int]]], context_lengths: list[int], block_size: int
) -> Int32s:
    """Return the padded block tables. Copying them as bytes is several times faster than copying numbers."""
    width = -(-max(context_lengths) // block_size)
    num_groups = len(tables[0])
    rows = []
    for group in range(num_groups):
        for of_groups, context_length in zip(tables, context_lengths, strict=True):
            table = of_groups[group]
            num_used = -(-context_length // block_size)
            if num_used == width == len(table):
                rows.append(table)
            else:
                rows.append(table[:num_used] + table[:1] * (width - num_used))
    array_of_all = np.frombuffer(bytearray().join(rows), np.int32)
    shape = (len(tables), width) if num_groups == 1 else (num_groups, len(tables), width)
    return array_of_all.reshape(shape)
