"""Texts become the encoder's tokens, and vectors become an answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from service.generation.errors import InvalidRequest, PromptTooLong
from service.generation.prompts.conversation import RawText, RawTokens
from service.generation.requests.embedding import TextsToEmbed
from service.prompts.embeddings.embedding import EmbeddingPrompts, EncoderForm
from tests.engine.byte_tokenizer import ByteTokenizer
from tests.waiting import GUARD_S

BEGIN, FINISH = 256, 257


class FramedTokenizer(ByteTokenizer):
    """A tokenizer in which token i is byte i, with a control token before and after a text on request."""

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        ids = super().encode(text)
        return [BEGIN, *ids, FINISH] if add_special_tokens else ids


@pytest.fixture
async def prompts() -> AsyncIterator[EmbeddingPrompts]:
    """Yield prompts of up to 8 tokens, including two control tokens, with vectors of 4 components."""
    prompts = EmbeddingPrompts(FramedTokenizer(), 8, 4)
    yield prompts
    prompts.close()


def asked(*inputs: str | list[int], **fields: Any) -> TextsToEmbed:
    given = [
        RawText(each, f"inputs[{index}]") if isinstance(each, str) else RawTokens(each, f"inputs[{index}]")
        for index, each in enumerate(inputs)
    ]
    return TextsToEmbed("m", given, **fields)


async def tokens(prompts: EmbeddingPrompts, *inputs: str | list[int], **fields: Any) -> list[list[int]]:
    prepared = await prompts.prepare(asked(*inputs, **fields), "r")
    return [each.tolist() for each in prepared.inputs]


async def test_texts_get_control_tokens_and_token_ids_do_not(prompts: EmbeddingPrompts) -> None:
    """Texts get the tokenizer's control tokens; token ids are used unchanged."""
    assert await tokens(prompts, "ab", [7, 8, 9], "c") == [[BEGIN, 97, 98, FINISH], [7, 8, 9], [BEGIN, 99, FINISH]]


async def test_instruction_stands_before_each_text(prompts: EmbeddingPrompts) -> None:
    """The instruction is part of the text."""
    assert await tokens(prompts, "a", "b", instruction="x:") == [
        [BEGIN, *b"x:a", FINISH],
        [BEGIN, *b"x:b", FINISH],
    ]


@pytest.mark.parametrize(
    ("dimensions", "asked", "message"),
    [
        ((), 2, "must be 4: the model's vectors can't be truncated"),
        ((2, 3), 1, "must be one of 2, 3, 4, not 1"),
        ((2, 3), 5, "must be at most the model's own 4, not 5"),
        ((2, 3), 3, None),
        ((), 4, None),
        (None, 1, None),
    ],
)
async def test_dimensions_must_be_supported_by_the_model(
    dimensions: tuple[int, ...] | None, asked: int, message: str | None
) -> None:
    """A model allows any dimensions, or those of its list, and always its own number."""
    prompts = EmbeddingPrompts(FramedTokenizer(), 8, 4, EncoderForm(dimensions=dimensions))
    if message is None:
        assert await tokens(prompts, "a", dimensions=asked) == [[BEGIN, *b"a", FINISH]]
    else:
        with pytest.raises(InvalidRequest, match=message) as caught:
            await tokens(prompts, "a", dimensions=asked)
        assert caught.value.field == "dimensions"
    prompts.close()


@pytest.mark.parametrize(
    ("form", "fields", "text"),
    [
        (EncoderForm(prompts={"query": "q:"}, default_prompt="d:"), {}, b"d:a"),
        (EncoderForm(prompts={"query": "q:"}, default_prompt="d:"), {"purpose": "query"}, b"q:a"),
        (EncoderForm(prompts={"query": "q:"}, default_prompt="d:"), {"purpose": "document"}, b"d:a"),
        (EncoderForm(prompts={"passage": "p:"}), {"purpose": "document"}, b"p:a"),
        (EncoderForm(prompts={"query": "q:"}), {"purpose": "query", "instruction": "i:"}, b"i:a"),
        (EncoderForm(prompts={"query": "q:"}), {}, b"a"),
    ],
)
async def test_models_purpose_prompts_precede_texts(form: EncoderForm, fields: dict[str, Any], text: bytes) -> None:
    """The prefix depends on the purpose of the text; a client's instruction replaces it."""
    prompts = EmbeddingPrompts(FramedTokenizer(), 8, 4, form)
    assert await tokens(prompts, "a", **fields) == [[BEGIN, *text, FINISH]]
    prompts.close()


async def test_text_is_lowercased_if_the_folder_requires_it() -> None:
    """Both the instruction and the text become lower case."""
    prompts = EmbeddingPrompts(FramedTokenizer(), 8, 4, EncoderForm(lowers_case=True))
    assert await tokens(prompts, "A", instruction="X") == [[BEGIN, *b"xa", FINISH]]
    prompts.close()


async def test_request_keeps_its_deadline_and_priority(prompts: EmbeddingPrompts) -> None:
    """Deadline and priority are passed to the engine."""
    prepared = await prompts.prepare(asked("a", priority=3), "id", 12.5)
    assert (prepared.request_id, prepared.deadline, prepared.priority) == ("id", 12.5, 3)


async def test_many_inputs_keep_their_order(prompts: EmbeddingPrompts) -> None:
    """The order is kept however the inputs are split among the threads."""
    texts = [str(number) for number in range(1000)]
    assert await tokens(prompts, *texts) == [[BEGIN, *text.encode(), FINISH] for text in texts]


@pytest.mark.parametrize("given", ["abcdefg", [1, 2, 3, 4, 5, 6, 7, 8, 9]])
async def test_too_long_input_is_rejected_or_truncated_at_the_end(
    prompts: EmbeddingPrompts, given: str | list[int]
) -> None:
    """Both kinds of input keep the control tokens; the error has the input's field and the lengths."""
    with pytest.raises(PromptTooLong) as caught:
        await prompts.prepare(asked("a", given), "r")
    assert (caught.value.field, caught.value.num_prompt_tokens, caught.value.max_prompt_tokens) == ("inputs[1]", 9, 8)
    cut = [BEGIN, *b"abcdef", FINISH] if isinstance(given, str) else [1, 2, 3, 4, 5, 6, 7, 8]
    assert await tokens(prompts, "a", given, truncates=True) == [[BEGIN, 97, FINISH], cut]


@pytest.mark.parametrize("given", ["abcdef", [1, 2, 3, 4, 5, 6, 7, 8]])
async def test_input_of_the_maximum_length_is_accepted(prompts: EmbeddingPrompts, given: str | list[int]) -> None:
    """An input of exactly the limit is accepted."""
    for truncates in (False, True):
        assert len((await tokens(prompts, given, truncates=truncates))[0]) == 8


@pytest.mark.parametrize(
    ("inputs", "fields", "field"),
    [
        (["a", ""], {}, "inputs[1].text"),
        (["a", ""], {"instruction": "x"}, "inputs[1].text"),
        (["a", [1]], {"instruction": "x"}, "instruction"),
        (["a"], {"dimensions": 5}, "dimensions"),
    ],
)
async def test_bad_request_is_rejected(
    prompts: EmbeddingPrompts, inputs: list[Any], fields: dict[str, Any], field: str
) -> None:
    """The error names the field."""
    with pytest.raises(InvalidRequest) as caught:
        await prompts.prepare(asked(*inputs, **fields), "r")
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("dimensions", "expected"),
    [(None, [3, 4, 12, 0]), (4, [3, 4, 12, 0]), (3, [3 / 13, 4 / 13, 12 / 13]), (2, [0.6, 0.8])],
)
async def test_dimensions_cut_vectors_to_unit_length(
    prompts: EmbeddingPrompts, dimensions: int | None, expected: list[float]
) -> None:
    """Cut vectors have unit length; uncut ones are unchanged."""
    vectors = [np.array([3, 4, 12, 0], dtype=np.float32), np.zeros(4, dtype=np.float32)]
    first, second = await prompts.finish(vectors, dimensions, lambda cut: cut)
    assert first == pytest.approx(expected)
    assert second == [0] * len(expected)


async def test_vectors_are_rendered_on_a_thread(prompts: EmbeddingPrompts) -> None:
    """Rendering millions of numbers doesn't block the event loop."""
    assert await prompts.finish([], None, lambda _: threading.get_ident()) != threading.get_ident()


async def test_long_texts_do_not_delay_short_ones() -> None:
    """While requests with long texts use all threads, a short text waits for one of the texts, not for all."""
    gate = threading.Semaphore(0)
    entered = threading.Semaphore(0)

    class Slow(FramedTokenizer):
        encoded = 0

        def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
            if len(text) > 1:
                entered.release()
                assert gate.acquire(timeout=GUARD_S)
                self.encoded += 1
            return super().encode(text[:2], add_special_tokens=add_special_tokens)

    tokenizer = Slow()
    prompts = EmbeddingPrompts(tokenizer, 8, 4)
    long = [asyncio.create_task(prompts.prepare(asked(*["x" * 65_536] * 50), "r")) for _ in range(2)]
    for _ in long:
        assert await asyncio.to_thread(entered.acquire, timeout=GUARD_S)  # each one has a thread
    short = asyncio.create_task(prompts.prepare(asked("a"), "r"))
    await asyncio.sleep(0)  # until it waits for a thread
    gate.release(2)  # one text on each thread
    await short
    assert tokenizer.encoded <= 2
    for each in long:
        each.cancel()
    gate.release(100)
    await asyncio.gather(*long, return_exceptions=True)
    prompts.close()


def test_tokenizer_that_changes_its_text_is_rejected() -> None:
    """The added tokens of such a tokenizer could not be distinguished from the text."""

    class Respelling(ByteTokenizer):
        def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
            return [1, 2] if add_special_tokens else [3]

    with pytest.raises(ValueError, match="changes a text's own tokens"):
        EmbeddingPrompts(Respelling(), 8, 4)


class GatedTokenizer(FramedTokenizer):
    """A tokenizer that waits for a gate before it encodes a long text."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun = threading.Semaphore(0)
        self.num_begun = 0

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        if len(text) > 1000:
            self.num_begun += 1
            self.begun.release()
            self.gate.wait(GUARD_S)
        return super().encode(text, add_special_tokens=add_special_tokens)


async def test_long_texts_are_tokenized_one_at_a_time() -> None:
    """Long texts are tokenized one at a time, also after a request was cancelled, and short texts meanwhile."""
    tokenizer = GatedTokenizer()
    prompts = EmbeddingPrompts(tokenizer, 300_000, 4)
    first, second = (asyncio.create_task(tokens(prompts, "a" * 200_000)) for _ in range(2))
    await asyncio.to_thread(tokenizer.begun.acquire)
    first.cancel()
    async with asyncio.timeout(GUARD_S):
        assert await tokens(prompts, "ab") == [[BEGIN, 97, 98, FINISH]]
    assert tokenizer.num_begun == 1
    tokenizer.gate.set()
    (token_ids,) = await second
    assert len(token_ids) == 200_002
    prompts.close()
