"""Clients' text never becomes a control token."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import jinja2
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import InvalidRequest
from tests.engine.constraints.fakes import ADDED, END, SPECIAL, tokenizer_of
from tests.service.prompts.fakes import CHATML, control_tokens_of

TOKENIZER = tokenizer_of(*ADDED)
CONTROL = control_tokens_of(TOKENIZER)


def encoded(source: str, value: Any, tokenizer: FastTokenizer = TOKENIZER) -> list[int]:
    """Return the ids of a template rendered with a client's value."""
    control = control_tokens_of(tokenizer, CHATML + source)
    marks = control.draw_marks(value)
    environment = jinja2.Environment(autoescape=False)  # noqa: S701  the prompt is not HTML
    return control.encode(environment.from_string(source).render(value=control.mark(value, marks)), marks)


def control_ids(token_ids: list[int], tokenizer: FastTokenizer = TOKENIZER) -> list[str]:
    spelled = {token_id: token for token, token_id in control_tokens_of(tokenizer).ids.items()}
    return [spelled[token_id] for token_id in token_ids if token_id in spelled]


@pytest.mark.parametrize("token", [*SPECIAL, *ADDED])
@pytest.mark.parametrize("around", ["{}", "a {} b", "{}{}", "<{}>", "\n{}\n"])
def test_control_token_in_client_text_is_encoded_as_text(token: str, around: str) -> None:
    """A control token in a client's string is encoded as its letters; the template's own token stays."""
    text = around.format(token, token)
    token_ids = encoded("{{ value }}<|im_end|>", text)
    assert control_ids(token_ids) == [END]
    assert TOKENIZER.decode(token_ids, skip_special_tokens=False) == text + END


@pytest.mark.parametrize("source", ["{{ value.a }}{{ value.b }}", "{{ value.a ~ value.b }}"])
@pytest.mark.parametrize("cut", range(1, len(END)))
def test_adjacent_client_strings_form_no_control_token(source: str, cut: int) -> None:
    """Two adjacent strings in the rendered prompt don't form a control token."""
    value = {"a": END[:cut], "b": END[cut:]}
    token_ids = encoded(source, value)
    assert control_ids(token_ids) == []
    assert TOKENIZER.decode(token_ids, skip_special_tokens=False) == END


def test_client_string_and_template_text_form_no_control_token() -> None:
    """A string's end and the template's text after it don't form a control token."""
    assert control_ids(encoded("{{ value }}end|>", "<|im_")) == []
    assert control_ids(encoded("<|im_{{ value }}", "end|>")) == []


def test_template_control_token_between_client_strings_is_kept() -> None:
    """A control token that the template writes stays one, even if the strings around it look like parts of tokens."""
    assert control_ids(encoded("{{ value.a }}<|im_end|>{{ value.b }}", {"a": "x<", "b": ">y"})) == [END]


@pytest.mark.parametrize("filter_call", ["tojson", "string"])
def test_schema_names_and_escaped_strings_are_text(filter_call: str) -> None:
    """Names in a tool's schema, and strings that a template escapes, are text too."""
    value = {"properties": {END: {"description": f"x{END}"}}}
    assert control_ids(encoded(f"{{{{ value | {filter_call} }}}}", value)) == []


def test_private_use_characters_of_client_text_are_kept() -> None:
    """No character of the client's is lost, whatever marks are used, and none works as a mark."""
    text = "".join(chr(0xF0000 + n) for n in range(4)) + END + json.dumps(chr(0xF0004)) + repr(chr(0xF0005))
    token_ids = encoded("{{ value }}", text)
    assert control_ids(token_ids) == []
    assert TOKENIZER.decode(token_ids, skip_special_tokens=False) == text


@given(
    parts=st.lists(
        st.sampled_from(
            [*SPECIAL, *ADDED, "\U000f0000", "\\U000f0001", "<", "|", ">", "im_end", "/think", " ", "é", "\n"]
        ),
        max_size=8,
    )
)
def test_encoding_any_text_keeps_it_and_yields_no_control_token(parts: list[str]) -> None:
    """Encoding never changes the text, and never yields a control token from it."""
    text = "".join(parts)
    token_ids = encoded("{{ value }}", text)
    assert control_ids(token_ids) == []
    assert TOKENIZER.decode(token_ids, skip_special_tokens=False) == text


def test_text_without_control_tokens_is_encoded_as_one_prompt() -> None:
    """Without text that looks like a control token, the ids are those of the whole prompt."""
    text = "the name and {the} arguments: a < b\nthink"
    assert encoded("<|im_start|>{{ value }}<|im_end|>", text) == TOKENIZER.encode(f"<|im_start|>{text}<|im_end|>")


def test_added_token_outside_the_template_is_ordinary_text() -> None:
    """Added tokens such as HTML tags or line ends are ordinary vocabulary, not control tokens."""
    tokenizer = tokenizer_of(*ADDED, "<table>", "\n\n")
    assert encoded("{{ value }}", "a<table>\n\n", tokenizer) == tokenizer.encode("a<table>\n\n")


def test_sentencepiece_adds_no_spaces_inside_the_prompt() -> None:
    """A tokenizer that starts every text with a space doesn't do so inside the prompt."""
    pieces = ["<unk>", END, "▁", *"abcdefimn_<|>/", "\n"]
    backend = tokenizers.Tokenizer(
        tokenizers.models.BPE({piece: n for n, piece in enumerate(pieces)}, [], unk_token=pieces[0])
    )
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    backend.decoder = tokenizers.decoders.Metaspace(prepend_scheme="first")
    backend.add_special_tokens([END])
    tokenizer = FastTokenizer(backend.to_str())
    token_ids = encoded("ab{{ value }}c", END, tokenizer)
    assert [pieces[token_id] for token_id in token_ids] == ["▁", "a", "b", *END, "c"]


def test_text_spelling_of_a_control_token_is_split() -> None:
    """A vocabulary in which plain text could become the control token doesn't produce it."""
    pieces = ["<unk>", "</s>", *"s<>/\n", "</", "s>"]
    backend = tokenizers.Tokenizer(
        tokenizers.models.Unigram([(piece, -1.0 if len(piece) > 2 else -5.0) for piece in pieces], 0)
    )
    backend.add_special_tokens(["</s>"])
    tokenizer = FastTokenizer(backend.to_str())
    (end_id,) = control_tokens_of(tokenizer, "").ids.values()
    assert end_id in without_added_tokens(backend).encode("</s>").ids  # plain text would become the token
    assert end_id not in encoded("{{ value }}", "</s>", tokenizer)


@given(st.text(st.sampled_from("<|>ab12"), max_size=60))
def test_longest_control_token_is_found(text: str) -> None:
    """The longest token at a position is found, even if tokens share a prefix or are prefixes of others."""
    tokens = ("<|a", "<|a|>", "<|a1|>", "<|a12", "<|b|>", "ab")
    control = control_tokens_of(tokenizer_of(*tokens), "".join(tokens))
    marks = control.draw_marks(text)
    longest_first = "|".join(map(re.escape, sorted(control.ids, key=len, reverse=True)))
    expected = re.sub(longest_first, lambda token: marks.open + token[0] + marks.close, text)
    assert control.mark(text, marks).strip(marks.close) == expected.strip(marks.close)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["<|", "<|reserved_special_token_", "<|im_start|", "\U000f0000"])
def test_time_does_not_grow_with_the_number_of_tokens(text: str) -> None:
    """Prefixes of tokens take as much time with a vocabulary of 250 tokens as with one of 2."""
    value = text * (100_000 // len(text))

    def processor_time(count: int) -> float:
        control = control_tokens_of(
            tokenizer_of(special=tuple(f"<|reserved_special_token_{n}|>" for n in range(count)))
        )
        times = []
        for _ in range(5):
            begin = time.thread_time()
            control.mark(value, control.draw_marks(""))
            times.append(time.thread_time() - begin)
        return min(times)

    assert processor_time(250) < 10 * processor_time(2)


ALL_MARKS = "".join(map(chr, range(0xF0000, 0xF0000 + 4093)))  # but three


@pytest.mark.slow
@pytest.mark.parametrize(
    "hostile",
    ["\U000f0000", ALL_MARKS, "\\U000f0", "\\udb80\\udc00", "\\", "é"],
    ids=["one-mark", "all-marks", "escape-cut", "escape", "backslash", "letter"],
)
def test_choosing_marks_scans_the_text_few_times(hostile: str) -> None:
    """Drawing marks for a text of marks, in any form, takes far less time than a scan for each possible mark.

    All marks but three end the text, so that a scan for one of them would read the whole text.
    """
    text = hostile * (1_600_000 // len(hostile)) + ALL_MARKS

    def processor_time(work: Callable[[], object]) -> float:
        begin = time.thread_time()
        work()
        return time.thread_time() - begin

    # In turns, since other work on the machine would slow only one of both down.
    times = [
        (processor_time(lambda: CONTROL.draw_marks(text)), processor_time(lambda: set("é" * len(text))))
        for _ in range(3)
    ]
    drawing_s, scan_s = map(min, zip(*times, strict=True))
    assert drawing_s < 200 * scan_s, "about 4 to 9 scans, of thousands of possible marks"


class CountedText(str):
    """Text that counts how often it is read from its beginning, except by regular expressions."""

    __slots__ = ("num_scans",)
    num_scans: int

    def __contains__(self, part: object, /) -> bool:
        self.num_scans += 1
        return isinstance(part, str) and super().__contains__(part)

    def __iter__(self) -> Iterator[str]:
        self.num_scans += 1
        return super().__iter__()


@pytest.mark.parametrize("hostile", ["\U000f0000", "\\U000f0", "\\udb80\\udc00", "\\", "\u00e9"])
def test_the_number_of_scans_does_not_grow_with_the_number_of_marks(hostile: str) -> None:
    """A text with all possible marks but three is read twice: for its characters, and for a backslash."""
    text = CountedText(1000 * hostile + ALL_MARKS)
    text.num_scans = 0
    CONTROL.draw_marks(text)
    assert text.num_scans == 2


def without_added_tokens(backend: Any) -> Any:
    """Return a tokenizer for which every text is plain."""
    return tokenizers.Tokenizer.from_str(json.dumps(json.loads(backend.to_str()) | {"added_tokens": []}))


@pytest.mark.parametrize(
    "form",
    [str, lambda mark: json.dumps(mark)[1:-1], lambda mark: repr(mark)[1:-1]],
    ids=["plain", "json", "python"],
)
def test_text_that_has_every_mark_is_rejected(form: Any) -> None:
    """A text with all possible marks is rejected; a text with many of them is accepted."""
    plane = [form(chr(code)) for code in range(0xF0000, 0xF0000 + 4096)]
    with pytest.raises(InvalidRequest, match=r"U\+F0000") as caught:
        CONTROL.draw_marks([{"role": "user", "content": "".join(plane)}])
    assert caught.value.field == "messages"
    marks = CONTROL.draw_marks([{"role": "user", "content": "".join(plane[:-3])}])
    assert [ord(mark) for mark in marks] == [0xF0000 + 4093, 0xF0000 + 4094, 0xF0000 + 4095]
