"""The input of custom tools' calls: the same under every cut of the arguments, which may be cut off or malformed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.openai_family.parameters.custom_input import CustomInput, arguments_of, input_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ARGUMENTS = st.one_of(
    st.builds(lambda text, spaced, ascii_only: encoded(text, spaced=spaced, ascii_only=ascii_only),
              TEXTS, st.booleans(), st.booleans()),
    st.text('{}"input: \\u0Dd8ceq\n', max_size=30),
    st.builds('{{"input":"{}'.format, st.text('"\\u0Dd8ceqn', max_size=20)),
)  # fmt: skip


def encoded(text: str, *, spaced: bool, ascii_only: bool) -> str:
    """Return arguments as models write them."""
    return json.dumps({"input": text}, indent=4 if spaced else None, ensure_ascii=ascii_only)


@given(text=TEXTS, spaced=st.booleans(), ascii_only=st.booleans())
def test_input_is_the_text(*, text: str, spaced: bool, ascii_only: bool) -> None:
    """Every text is read from its arguments, with and without escapes and white space."""
    assert input_of(encoded(text, spaced=spaced, ascii_only=ascii_only)) == text
    assert input_of(arguments_of(text)) == text


@given(ARGUMENTS, st.data())
def test_cuts_make_no_difference(arguments: str, data: st.DataObject) -> None:
    """The pieces' inputs are together that of the whole, which is encodable."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(arguments)), max_size=8)))
    ends = [*cuts, len(arguments)]
    reader = CustomInput()
    pieces = [reader.add(arguments[begin:end]) for begin, end in zip([0, *cuts], ends, strict=True)]
    whole = input_of(arguments)
    assert "".join(pieces) == whole
    whole.encode()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("*** Begin Patch", "*** Begin Patch"),
        ('{"patch": "x"}', '{"patch": "x"}'),
        ("{}", "{}"),
        ('{"in put":"x"}', '{"in put":"x"}'),
        ('{"input": 7}', '{"input": 7}'),
        ('{"input": "a", "more": 1}', "a"),
        ('{"input": "a\\', "a"),
        (r'{"input": "a\u00', "a"),
        (r'{"input": "a\ud83d', "a"),
        (r'{"input": "\ud83d\n"}', "\ufffd\n"),
        (r'{"input": "\ud83d\ud83d\ude00"}', "\ufffd\U0001f600"),
        (r'{"input": "\ude00\d\uxyz"}', "\ufffd\\d\\uxyz"),
        ('{"inp', ""),
        ("", ""),
    ],
)
def test_unusual_arguments(arguments: str, text: str) -> None:
    """Arguments of another form are the input, a cut escape is dropped, and half of a pair is replaced."""
    assert input_of(arguments) == text
