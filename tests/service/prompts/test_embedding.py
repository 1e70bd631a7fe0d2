"""Texts become the encoder's tokens, and vectors an answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
from sluice.v1 import embedding_pb2, serving_pb2

from service.generation.errors import InvalidRequest, PromptTooLong
from service.pipeline.embedding import EmbeddingPipeline
from tests.engine.encoder_fakes import BEGIN, FINISH, FramedTokenizer
from tests.engine.fakes import ByteTokenizer, until

TRUNCATE = serving_pb2.ServingOptions(error_behavior=serving_pb2.ERROR_BEHAVIOR_TRUNCATE)


@pytest.fixture
async def pipeline() -> AsyncIterator[EmbeddingPipeline]:
    """Of texts up to 8 tokens, two of which are the tokenizer's, and vectors of 4 components."""
    pipeline = EmbeddingPipeline(FramedTokenizer(), 8, 4)
    yield pipeline
    pipeline.close()


def request(*inputs: str | list[int], **fields: Any) -> embedding_pb2.EmbedRequest:
    prompts = [{"text": each} if isinstance(each, str) else {"token_ids": {"ids": each}} for each in inputs]
    return embedding_pb2.EmbedRequest(**{"model": "m", "inputs": prompts, **fields})


async def tokens(pipeline: EmbeddingPipeline, *inputs: str | list[int], **fields: Any) -> list[list[int]]:
    prepared = await pipeline.prepare(request(*inputs, **fields), "r")
    return [each.tolist() for each in prepared.inputs]


async def test_texts_are_framed_and_token_ids_are_not(pipeline: EmbeddingPipeline) -> None:
    """A text stands between the tokenizer's own tokens; ids are taken as they are."""
    assert await tokens(pipeline, "ab", [7, 8, 9], "c") == [[BEGIN, 97, 98, FINISH], [7, 8, 9], [BEGIN, 99, FINISH]]


async def test_instruction_stands_before_each_text(pipeline: EmbeddingPipeline) -> None:
    """It is part of the text."""
    assert await tokens(pipeline, "a", "b", instruction="x:") == [
        [BEGIN, *b"x:a", FINISH],
        [BEGIN, *b"x:b", FINISH],
    ]


async def test_case_is_lowered_where_the_folder_says_so() -> None:
    """Of instruction and text."""
    pipeline = EmbeddingPipeline(FramedTokenizer(), 8, 4, lowers_case=True)
    assert await tokens(pipeline, "A", instruction="X") == [[BEGIN, *b"xa", FINISH]]
    pipeline.close()


async def test_request_keeps_its_deadline_and_priority(pipeline: EmbeddingPipeline) -> None:
    """They are the engine's to heed."""
    prepared = await pipeline.prepare(request("a", serving={"priority": -3}), "id", 12.5)
    assert (prepared.request_id, prepared.deadline, prepared.priority) == ("id", 12.5, -3)


async def test_many_inputs_keep_their_order(pipeline: EmbeddingPipeline) -> None:
    """However they are split among the threads."""
    texts = [str(number) for number in range(1000)]
    assert await tokens(pipeline, *texts) == [[BEGIN, *text.encode(), FINISH] for text in texts]


@pytest.mark.parametrize("given", ["abcdefg", [1, 2, 3, 4, 5, 6, 7, 8, 9]])
async def test_too_long_input_is_refused_or_loses_its_end(pipeline: EmbeddingPipeline, given: str | list[int]) -> None:
    """Both keep what the tokenizer adds; the error has the input's place and the lengths."""
    with pytest.raises(PromptTooLong) as caught:
        await pipeline.prepare(request("a", given), "r")
    assert (caught.value.field, caught.value.num_prompt_tokens, caught.value.max_prompt_tokens) == ("inputs[1]", 9, 8)
    cut = [BEGIN, *b"abcdef", FINISH] if isinstance(given, str) else [1, 2, 3, 4, 5, 6, 7, 8]
    assert await tokens(pipeline, "a", given, serving=TRUNCATE) == [[BEGIN, 97, FINISH], cut]


@pytest.mark.parametrize("given", ["abcdef", [1, 2, 3, 4, 5, 6, 7, 8]])
async def test_longest_input_is_taken_whole(pipeline: EmbeddingPipeline, given: str | list[int]) -> None:
    """The limit itself is within."""
    for serving in (None, TRUNCATE):
        assert len((await tokens(pipeline, given, serving=serving))[0]) == 8


@pytest.mark.parametrize(
    ("inputs", "fields", "field"),
    [
        (["a", ""], {}, "inputs[1].text"),
        (["a", ""], {"instruction": "x"}, "inputs[1].text"),
        (["a", [1]], {"instruction": "x"}, "instruction"),
        (["a"], {"dimensions": 5}, "dimensions"),
    ],
)
async def test_bad_request_is_refused(
    pipeline: EmbeddingPipeline, inputs: list[Any], fields: dict[str, Any], field: str
) -> None:
    """The error names the field."""
    with pytest.raises(InvalidRequest) as caught:
        await pipeline.prepare(request(*inputs, **fields), "r")
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("dimensions", "expected"),
    [(None, [3, 4, 12, 0]), (4, [3, 4, 12, 0]), (3, [3 / 13, 4 / 13, 12 / 13]), (2, [0.6, 0.8])],
)
async def test_dimensions_cut_vectors_to_unit_length(
    pipeline: EmbeddingPipeline, dimensions: int | None, expected: list[float]
) -> None:
    """Leading components at unit length; all of them as the model made them."""
    vectors = [np.array([3, 4, 12, 0], dtype=np.float32), np.zeros(4, dtype=np.float32)]
    first, second = await pipeline.embeddings(request("a", "b", dimensions=dimensions), vectors)
    assert (first.index, second.index) == (0, 1)
    assert list(first.values) == pytest.approx(expected)
    assert list(second.values) == [0] * len(expected)


async def test_long_texts_do_not_hold_up_short_ones() -> None:
    """While requests of long texts fill the threads, a short one has its turn after a text, not after all."""
    gate = threading.Event()

    class Slow(FramedTokenizer):
        encoded = 0

        def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
            if len(text) > 1:
                assert gate.wait(60)
                self.encoded += 1
            return super().encode(text[:2], add_special_tokens=add_special_tokens)

    tokenizer = Slow()
    pipeline = EmbeddingPipeline(tokenizer, 8, 4)
    long = [asyncio.create_task(pipeline.prepare(request(*["x" * 65_536] * 50), "r")) for _ in range(2)]
    await asyncio.sleep(0)
    short = asyncio.create_task(pipeline.prepare(request("a"), "r"))
    await until(lambda: pipeline._pool._work_queue.qsize() == 1)
    gate.set()
    await short
    assert tokenizer.encoded < 90
    for each in long:
        each.cancel()
    await asyncio.gather(*long, return_exceptions=True)
    pipeline.close()


def test_tokenizer_that_respells_its_text_is_refused() -> None:
    """What it adds could not be told from the text."""

    class Respelling(ByteTokenizer):
        def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
            return [1, 2] if add_special_tokens else [3]

    with pytest.raises(ValueError, match="changes a text's own tokens"):
        EmbeddingPipeline(Respelling(), 8, 4)
