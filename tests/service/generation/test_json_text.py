"""JSON in text fields: anything but one valid value is rejected for its field."""

from __future__ import annotations

import pytest

from service.generation.errors import InvalidRequest
from service.generation.formats.json_text import parse_json

REFUSED = {
    "an integer of 2^64": ('{"minimum": 18446744073709551616}', "the integer 18446744073709551616 is out of range"),
    "an integer below -2^63": ("[-9223372036854775809]", "the integer -9223372036854775809 is out of range"),
    "an integer of 5,000 digits": ("1" * 5000, f"the integer {'1' * 64}… is out of range"),
    "a number beyond doubles": ('{"const": 1e400}', "the number 1e400 is out of range"),
    "NaN": ("NaN", "NaN is no JSON value"),
    "Infinity": ("[-Infinity]", "-Infinity is no JSON value"),
    "a duplicate key": ('{"a": {"b": 1, "b": 2}}', "duplicate key 'b' in an object"),
    "an unpaired surrogate": (r'{"const": "\ud800"}', "unpaired surrogate"),
    "an unpaired surrogate in a key": (r'{"\uDC00": 1}', "unpaired surrogate"),
    "deep nesting": ("[" * 101 + "]" * 101, "nested more than 100 levels deep"),
    "nesting beyond Python's stack": ("[" * 100_000, "nested more than 100 levels deep"),
    "half a text": ('{"a": ', "in line 1, column 7"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_invalid_json_is_rejected_by_its_field(case: tuple[str, str]) -> None:
    text, message = case
    with pytest.raises(InvalidRequest) as caught:
        parse_json(text, "tools[0].function.parameters")
    assert caught.value.field == "tools[0].function.parameters"
    assert message in str(caught.value)


def test_largest_values_are_accepted_unchanged() -> None:
    text = r'[18446744073709551615, -9223372036854775808, 1e308, "\ud83d\ude00", "\\ud800"]'
    assert parse_json(text, "schema") == [2**64 - 1, -(2**63), 1e308, "😀", r"\ud800"]
