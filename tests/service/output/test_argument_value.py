"""The types that a parameter's schema allows."""

from __future__ import annotations

from typing import Any

import pytest

from service.output.calls.argument_value import allowed_types

ANY = {"string", "integer", "number", "boolean", "object", "array", "null"}
ROOT = {"$defs": {"text": {"type": "string"}, "loop": {"anyOf": [{"$ref": "#/$defs/loop"}] * 9 + [{"type": "null"}]}}}


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"const": 1}, {"integer"}),
        ({"enum": ["a", None, True]}, {"string", "null", "boolean"}),
        ({"properties": {}}, {"object"}),
        ({"$ref": "#/$defs/text"}, {"string"}),
        ({"anyOf": [{"$ref": "#/$defs/text"}, {"oneOf": [{"type": "integer"}]}]}, {"string", "integer"}),
        ({"anyOf": [{"type": "string"}, {}]}, ANY),
        ({"anyOf": [{"type": "string"}, True]}, ANY),
        ({"$ref": "#/$defs/nowhere"}, ANY),
        ({"type": []}, ANY),
        ({}, ANY),
        (True, ANY),
    ],
)
def test_types_are_the_union_of_all_alternatives(schema: Any, types: set[str]) -> None:
    """A schema without restrictions allows all types."""
    assert allowed_types(schema, ROOT) == types


def test_recursive_alternatives_are_visited_once() -> None:
    """Nine references to itself at each level are no more work than one."""
    assert allowed_types({"$ref": "#/$defs/loop"}, ROOT) == {"null"}
