"""The characters that each token produces."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from service.output.tokens.token_ranges import TokenRanges
from tests.engine.constraints.fakes import ADDED, END, token_id, tokenizer_of
from tests.service.output.fakes import outputs_of, text_ends_of

TOKENIZER = tokenizer_of(*ADDED)
END_ID = token_id(TOKENIZER, END)


def byte_tokens(data: bytes) -> list[int]:
    single = {TOKENIZER.token_bytes(token): token for token in range(TOKENIZER.vocab_size)}
    return [single[bytes([byte])] for byte in data]


def ranges_of(token_ids: Sequence[int]) -> list[tuple[int, int]]:
    ranges = TokenRanges(TOKENIZER, TOKENIZER.special_token_ids)
    ends = text_ends_of(TOKENIZER, [*token_ids, END_ID])
    return [ranges.append(token, end) for token, end in zip(token_ids, ends, strict=False)]


def test_character_ranges_of_plain_text_are_adjacent() -> None:
    """Each token has its own characters."""
    token_ids = TOKENIZER.encode("the name")
    ends = list(itertools.accumulate(len(TOKENIZER.token_bytes(token)) for token in token_ids))
    assert ranges_of(token_ids) == list(itertools.pairwise([0, *ends]))


def test_tokens_of_one_character_all_have_its_range() -> None:
    """Four tokens of one byte each make one character, which all four have; the next token has the next one."""
    assert ranges_of(byte_tokens("😀a".encode())) == [(0, 1), (0, 1), (0, 1), (0, 1), (1, 2)]


def test_hidden_tokens_have_no_characters() -> None:
    """A special token that isn't in the text has no characters."""
    assert ranges_of([token_id(TOKENIZER, "<|im_start|>"), *byte_tokens(b"a")]) == [(0, 0), (0, 1)]


@given(data=st.binary(max_size=30))
def test_ranges_equal_the_characters_of_the_engines_text(data: bytes) -> None:
    """For any bytes, the counted characters are those of the engine's text before its end is flushed."""
    token_ids = byte_tokens(data)
    ranges = TokenRanges(TOKENIZER, TOKENIZER.special_token_ids)
    text = ""
    for token, output in zip(token_ids, outputs_of(TOKENIZER, [*token_ids, END_ID]), strict=False):
        ranges.append(token, output.text_ends[0])
        text += output.text
        assert ranges.num_characters == len(text)
