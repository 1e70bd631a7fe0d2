"""The arrays of a step: a mixed batch is checked against literal values, random batches against their definition."""

from __future__ import annotations

import random
from dataclasses import fields

import numpy as np

from service.engine.core.batch import Batch, make_batch
from service.engine.core.step import ScheduledSequence
from service.engine.models.attention.inputs import slots_of
from service.generation.prompts.image import PromptImage
from service.generation.requests.parameters import LogprobsOptions
from tests.engine.fakes import group_of, request

BLOCK_SIZE = 4


def item(
    prompt: list[int],
    num_computed: int,
    num_new: int,
    blocks: list[int],
    *,
    samples: bool = True,
    prompt_logprobs: LogprobsOptions | None = None,
) -> ScheduledSequence:
    (sequence,) = group_of(request(prompt, prompt_logprobs=prompt_logprobs)).sequences
    sequence.num_computed_tokens = num_computed
    sequence.block_table.extend(blocks)
    return ScheduledSequence(sequence, num_new, samples)


def test_batch_of_a_decode_a_chunk_and_a_prompt_with_logprobs() -> None:
    """Tokens are concatenated sequence by sequence, and only tokens that need logits have an output row."""
    batch = make_batch(
        [
            item([10, 11, 12, 13, 14], 4, 1, [7, 3]),
            item([20, 21, 22, 23, 24, 25, 26, 27, 28, 29], 2, 7, [5, 9, 1], samples=False),
            item([30, 31, 32], 0, 3, [2], prompt_logprobs=LogprobsOptions()),
        ],
        BLOCK_SIZE,
    )
    assert batch.token_ids.tolist() == [14, 22, 23, 24, 25, 26, 27, 28, 30, 31, 32]
    assert batch.positions.tolist() == [4, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2]
    assert batch.row_offsets.tolist() == [0, 1, 8, 11]
    assert batch.context_lengths.tolist() == [5, 9, 3]
    assert batch.block_tables.tolist() == [[7, 3, 7], [5, 9, 1], [2, 2, 2]]
    assert batch.output_rows.tolist() == [0, 8, 9, 10]
    assert slots_of(batch, BLOCK_SIZE).tolist() == [12, 22, 23, 36, 37, 38, 39, 4, 8, 9, 10]


def test_batch_leaves_out_blocks_that_are_not_used_yet() -> None:
    """A block table that is longer than the context after the step is cut to the blocks in use."""
    batch = make_batch([item([1, 2, 3, 4, 5], 0, 2, [8, 6, 4])], BLOCK_SIZE)
    assert batch.block_tables.tolist() == [[8]]


def test_batch_lists_the_images_of_its_tokens() -> None:
    """The batch lists the images with tokens among the new ones, and the offset of their first token."""
    pixels = np.zeros((3, 2, 2), np.uint8)
    images = [PromptImage(1, 5, b"a", pixels), PromptImage(6, 9, b"b", pixels)]
    text = item([7] * 4, 0, 4, [0])
    group = group_of(request([7] * 10, images=images))
    (sequence,) = group.sequences
    sequence.num_computed_tokens = 3
    sequence.block_table.extend([1, 2, 3])
    batch = make_batch([text, ScheduledSequence(sequence, 6, samples=False)], BLOCK_SIZE)
    assert [tuple(rows) for rows in batch.images] == [(images[0], 1, 4, 2, 2), (images[1], 1, 7, 0, 3)]


def test_batch_of_random_steps_locates_every_token() -> None:
    """All arrays are contiguous int32, and each token's slot lies in its sequence's block for its position."""
    draw = random.Random(3)
    for _ in range(100):
        items = []
        for _ in range(draw.randrange(1, 9)):
            length = draw.randrange(1, 40)
            start = draw.randrange(length)
            num_new = draw.randrange(1, length - start + 1)
            blocks = draw.sample(range(100), -(-length // BLOCK_SIZE))
            prompt = [draw.randrange(1000) for _ in range(length)]
            items.append(item(prompt, start, num_new, blocks, samples=start + num_new == length))
        batch = make_batch(items, BLOCK_SIZE)
        for each in fields(Batch):
            if each.name in {"images", "states"}:
                continue  # these sequences have none
            array = getattr(batch, each.name)
            if each.name == "adapters":
                assert array is None  # no sequence has one
                continue
            assert array.dtype == np.int32
            assert array.flags.c_contiguous
            assert array.flags.writeable  # torch warns about arrays that are not
        expected = [
            (token_id, position, each.sequence.block_table[position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE)
            for each in items
            for position, token_id in enumerate(each.sequence.token_ids)
            if 0 <= position - each.sequence.num_computed_tokens < each.num_new_tokens
        ]
        slots = slots_of(batch, BLOCK_SIZE)
        assert (
            list(zip(*(each.tolist() for each in (batch.token_ids, batch.positions, slots)), strict=True)) == expected
        )
        ends = [end for end, each in zip(batch.row_offsets[1:], items, strict=True) if each.samples]
        assert batch.output_rows.tolist() == [end - 1 for end in ends]
