"""Detokenizer: the text does not depend on the split into tokens, and contains no stop string."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.core.sequences.detokenizer import Detokenizer
from tests.engine.byte_tokenizer import CONTROL, ByteTokenizer, ChunkTokenizer


def every_split(data: bytes) -> Iterator[list[bytes]]:
    """Yield all ways to split `data` into tokens."""
    for num_cuts in range(len(data)):
        for cuts in combinations(range(1, len(data)), num_cuts):
            bounds = [0, *cuts, len(data)]
            yield [data[start:end] for start, end in pairwise(bounds)]


def ended_text(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """Return the text before the stop string that is complete first, and that stop string.

    The longest one wins if several are complete at the same character.
    """
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            longest = max(complete, key=len)
            return text[: end - len(longest)], longest
    return text, None


def held_text(text: str, stops: Sequence[str]) -> str:
    """Return the longest suffix of `text` that may become a stop string."""
    ends = (text[start:] for start in range(len(text)))
    return next((end for end in ends if any(stop.startswith(end) and stop != end for stop in stops)), "")


@pytest.mark.parametrize(
    ("text", "stops"),
    [
        ("abcdefgh", ()),
        ("abcdefgh", ("def",)),
        ("abcdefgh", ("a",)),
        ("abcdefgh", ("gh", "fgh")),
        ("abcdefgh", ("xyz", "hi")),
        ("aaabaab", ("aab",)),
        ("ababac", ("abac", "abab")),
        ("abcde", ("bcd", "c")),
        ("abcde", ("de", "bcd", "abcdef")),
        ("a€b€c", ("€c",)),
        ("héé!", ("é!", "éé")),
        ("😀😁", ("😁",)),
        ("\n\nA:", ("\nA",)),
    ],
)
def test_detokenizer_gives_the_same_text_for_every_split(text: str, stops: tuple[str, ...]) -> None:
    """For every split, even within characters, the text ends before the same stop string, no part of which is sent."""
    wanted, wanted_stop = ended_text(text, stops)
    for chunks in every_split(text.encode()):
        detokenizer = Detokenizer(ChunkTokenizer(chunks), stops)
        sent = ""
        for index in range(len(chunks)):
            sent += detokenizer.append(index)
            assert wanted.startswith(sent)
            if detokenizer.stop_sequence is not None:
                break
            seen = b"".join(chunks[: index + 1]).decode(errors="ignore")
            assert sent == seen.removesuffix(held_text(seen, stops)), "text is held that no stop string begins with"
        if detokenizer.stop_sequence is None:
            sent += detokenizer.flush()
        assert (sent, detokenizer.stop_sequence) == (wanted, wanted_stop)


@pytest.mark.slow
@settings(max_examples=500)
@given(
    chunks=st.lists(st.text("ab€", min_size=1, max_size=4), min_size=1, max_size=8),
    stops=st.lists(st.text("ab€", min_size=1, max_size=4), max_size=4, unique=True),
    min_tokens=st.integers(0, 4),
)
def test_detokenizer_honours_stops_after_min_tokens(chunks: list[str], stops: list[str], min_tokens: int) -> None:
    """A stop string that is complete within the first tokens is text; the first later one ends the text."""
    text = "".join(chunks)
    num_open = len("".join(chunks[:min_tokens]))
    wanted, wanted_stop = text, None
    for end in range(num_open + 1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            wanted_stop = max(complete, key=len)
            wanted = text[: end - len(wanted_stop)]
            break
    detokenizer = Detokenizer(ChunkTokenizer(c.encode() for c in chunks), stops, num_open_tokens=min_tokens)
    sent = ""
    for index in range(len(chunks)):
        sent += detokenizer.append(index)
        if detokenizer.stop_sequence is not None:
            break
    else:
        sent += detokenizer.flush()
    assert (sent, detokenizer.stop_sequence) == (wanted, wanted_stop)


@settings(max_examples=300)
@given(data=st.binary(max_size=12), cuts=st.lists(st.integers(0, 12), max_size=6))
def test_detokenizer_replaces_invalid_utf8(data: bytes, cuts: list[int]) -> None:
    """Any bytes, split anywhere, decode to the text of the whole, with U+FFFD for invalid bytes."""
    bounds = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    chunks = [data[start:end] for start, end in pairwise(bounds)]
    detokenizer = Detokenizer(ChunkTokenizer(chunks))
    sent = "".join(map(detokenizer.append, range(len(chunks)))) + detokenizer.flush()
    assert sent == data.decode(errors="replace")


def test_detokenizer_does_not_hold_invalid_bytes() -> None:
    """An invalid byte is sent as U+FFFD immediately, an incomplete character with the next byte."""
    detokenizer = Detokenizer(ByteTokenizer())
    assert detokenizer.append(0xFF) == "\ufffd"
    assert detokenizer.append(0xE2) == ""
    assert detokenizer.append(ord("a")) == "\ufffda"
    assert detokenizer.append(0xE2) == ""
    assert detokenizer.flush() == "\ufffd"


def test_detokenizer_does_not_hold_a_stop_string_within_open_tokens() -> None:
    """A stop string that is complete within `num_open_tokens` is sent immediately; only a possible one is held."""
    detokenizer = Detokenizer(ByteTokenizer(), ["ab"], num_open_tokens=3)
    assert [detokenizer.append(token_id) for token_id in b"aba"] == ["", "ab", ""]
    assert (detokenizer.append(ord("b")), detokenizer.stop_sequence) == ("", "ab")


@pytest.mark.parametrize(("skip", "text"), [(True, ""), (False, "<control>")])
def test_detokenizer_shows_control_tokens_only_on_request(skip: bool, text: str) -> None:  # noqa: FBT001
    """Control tokens are not part of the text unless the request asks for them."""
    assert Detokenizer(ByteTokenizer(), skip_special_tokens=skip).append(CONTROL) == text


def test_detokenizer_keeps_a_character_whole_around_a_control_token() -> None:
    """A control token between two bytes of a character does not split the character."""
    detokenizer = Detokenizer(ByteTokenizer())
    first, *rest = "€".encode()
    assert "".join(map(detokenizer.append, [first, CONTROL, *rest])) == "€"
