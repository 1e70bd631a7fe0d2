"""The logprobs of content tokens, and of prompts."""

from __future__ import annotations

import pytest

from service.generation.outputs.events import DecodedLogprob
from service.generation.outputs.output import TokenLogprob
from service.output.tokens.logprobs import ContentLogprobs, decode_prompt_logprobs
from service.output.tokens.token_ranges import TextRange
from tests.engine.constraints.fakes import ADDED, tokenizer_of

TOKENIZER = tokenizer_of(*ADDED)


def logprobs_of(ranges: list[tuple[int, int]], content: list[tuple[int, int]], num_decided: int) -> list[int]:
    """Return the indices of the tokens whose logprobs are returned."""
    logprobs = ContentLogprobs(TOKENIZER)
    for index, each in enumerate(ranges):
        logprobs.add_token(TextRange(*each), TokenLogprob(index, -1.0))
    for each in content:
        logprobs.add_content(TextRange(*each))
    return [logprob.token_id for logprob in logprobs.take(num_decided)]


@pytest.mark.parametrize(
    ("ranges", "content", "num_decided", "reported"),
    [
        ([(0, 2), (2, 4)], [(0, 4)], 4, [0, 1]),
        ([(0, 2), (2, 4)], [(0, 2)], 2, [0]),  # the second is held back
        ([(0, 2), (2, 4)], [(0, 3)], 3, [0]),  # half of the second is returned: it waits for its last character
        ([(0, 2), (2, 4)], [(0, 3)], 4, [0, 1]),  # half of the second is content: it is a content token
        ([(0, 2), (2, 4)], [(2, 4)], 4, [1]),  # the first was reasoning
        ([(0, 2), (2, 4), (4, 6)], [(0, 2), (4, 6)], 6, [0, 2]),  # a call between two contents
        ([(0, 2), (2, 2), (2, 4)], [(0, 4)], 4, [0, 2]),  # a hidden token
        ([(0, 1), (0, 1), (1, 2)], [(0, 2)], 2, [0, 1, 2]),  # two tokens of one character
    ],
)
def test_logprobs_belong_to_content_tokens(
    ranges: list[tuple[int, int]], content: list[tuple[int, int]], num_decided: int, reported: list[int]
) -> None:
    """A token with a content character is a content token, and is returned when its last character is decided."""
    assert logprobs_of(ranges, content, num_decided) == reported


def test_logprob_carries_bytes_and_candidates() -> None:
    """Half a character has its exact bytes."""
    single = {TOKENIZER.token_bytes(token): token for token in range(TOKENIZER.vocab_size)}
    first, plain = single["é".encode()[:1]], single[b"a"]
    logprobs = ContentLogprobs(TOKENIZER)
    logprobs.add_token(TextRange(0, 1), TokenLogprob(first, -0.5, top=((plain, -0.25), (first, -0.5))))
    logprobs.add_content(TextRange(0, 1))
    candidates = (DecodedLogprob(plain, b"a", -0.25), DecodedLogprob(first, b"\xc3", -0.5))
    assert logprobs.take(1) == [DecodedLogprob(first, b"\xc3", -0.5, candidates)]


def test_first_prompt_token_has_logprob_zero() -> None:
    """The first token has the logprob 0, because nothing precedes it; the others have the engine's."""
    first, second = (TOKENIZER.encode(letter)[0] for letter in "ab")
    found = decode_prompt_logprobs(TOKENIZER, [first, second], [TokenLogprob(second, -2.0)])
    assert found == [DecodedLogprob(first, b"a", 0.0), DecodedLogprob(second, b"b", -2.0)]


def test_truncated_prompt_has_no_logprobs() -> None:
    """A truncated prompt has no logprobs."""
    assert decode_prompt_logprobs(TOKENIZER, TOKENIZER.encode("ab"), []) == []
    assert len(decode_prompt_logprobs(TOKENIZER, TOKENIZER.encode("a"), [])) == 1
