"""Tokens to characters, and the logprobs of content tokens."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.generation.output import TokenLogprob
from service.pipeline.logprobs import ContentLogprobs
from service.pipeline.token_spans import Span, TokenSpans
from tests.pipeline.fakes import ADDED, outputs_of, token_id, tokenizer_of

TOKENIZER = tokenizer_of(*ADDED)


def byte_tokens(data: bytes) -> list[int]:
    single = {TOKENIZER.token_bytes(token): token for token in range(TOKENIZER.vocab_size)}
    return [single[bytes([byte])] for byte in data]


def spans_of(token_ids: list[int]) -> list[tuple[int, int]]:
    spans = TokenSpans(TOKENIZER, TOKENIZER.special_token_ids)
    told = [spans.append(token) for token in token_ids]
    return [(span.start, span.end) for span in told]


def test_spans_of_plain_text_lie_end_to_end() -> None:
    """Each token spans its own characters."""
    token_ids = TOKENIZER.encode("the name")
    ends = list(itertools.accumulate(len(TOKENIZER.token_bytes(token)) for token in token_ids))
    assert spans_of(token_ids) == list(itertools.pairwise([0, *ends]))


def test_tokens_that_share_a_character_all_span_it() -> None:
    """Four tokens of one byte each make one character, which is that of all four; the next token has the next one."""
    assert spans_of(byte_tokens("😀a".encode())) == [(0, 1), (0, 1), (0, 1), (0, 1), (1, 2)]


def test_hidden_tokens_span_nothing() -> None:
    """A special token that isn't in the text has no characters."""
    assert spans_of([token_id(TOKENIZER, "<|im_start|>"), *byte_tokens(b"a")]) == [(0, 0), (0, 1)]


@given(data=st.binary(max_size=30))
def test_spans_count_the_engine_s_characters(data: bytes) -> None:
    """For any bytes, the characters counted are those that the engine's text has before its end is flushed."""
    token_ids = byte_tokens(data)
    spans = TokenSpans(TOKENIZER, TOKENIZER.special_token_ids)
    text = ""
    for token, output in zip(
        token_ids, outputs_of(TOKENIZER, [*token_ids, token_id(TOKENIZER, "<|im_end|>")]), strict=False
    ):
        spans.append(token)
        text += output.text
        assert spans.num_characters == len(text)


def logprobs_of(spans: list[tuple[int, int]], content: list[tuple[int, int]], num_decided: int) -> list[int]:
    """The places of the tokens that are told."""
    logprobs = ContentLogprobs(TOKENIZER)
    for place, span in enumerate(spans):
        logprobs.add_token(Span(*span), TokenLogprob(place, -1.0))
    for span in content:
        logprobs.add_content(Span(*span))
    return [logprob.token_id for logprob in logprobs.take(num_decided)]


@pytest.mark.parametrize(
    ("spans", "content", "num_decided", "told"),
    [
        ([(0, 2), (2, 4)], [(0, 4)], 4, [0, 1]),
        ([(0, 2), (2, 4)], [(0, 2)], 2, [0]),  # the second is held back
        ([(0, 2), (2, 4)], [(0, 3)], 3, [0]),  # half of the second is told: it waits for its last character
        ([(0, 2), (2, 4)], [(0, 3)], 4, [0, 1]),  # half of the second is content: it is a content token
        ([(0, 2), (2, 4)], [(2, 4)], 4, [1]),  # the first was thinking
        ([(0, 2), (2, 4), (4, 6)], [(0, 2), (4, 6)], 6, [0, 2]),  # a call between two contents
        ([(0, 2), (2, 2), (2, 4)], [(0, 4)], 4, [0, 2]),  # a hidden token
        ([(0, 1), (0, 1), (1, 2)], [(0, 2)], 2, [0, 1, 2]),  # two tokens of one character
    ],
)
def test_logprobs_belong_to_content_tokens(
    spans: list[tuple[int, int]], content: list[tuple[int, int]], num_decided: int, told: list[int]
) -> None:
    """A token with a content character is a content token, told when its last character is decided."""
    assert logprobs_of(spans, content, num_decided) == told


def test_logprob_carries_text_bytes_and_candidates() -> None:
    """Half a character appears as U+FFFD, with its exact bytes."""
    (first, *_) = byte_tokens("é".encode())
    (plain,) = byte_tokens(b"a")
    logprobs = ContentLogprobs(TOKENIZER)
    logprobs.add_token(Span(0, 1), TokenLogprob(first, -0.5, top=((plain, -0.25), (first, -0.5))))
    logprobs.add_content(Span(0, 1))
    (told,) = logprobs.take(1)
    assert (told.token, told.token_id, told.logprob, told.bytes) == ("\ufffd", first, -0.5, b"\xc3")
    assert [(top.token, top.bytes, top.logprob) for top in told.top_logprobs] == [
        ("a", b"a", -0.25),
        ("\ufffd", b"\xc3", -0.5),
    ]
