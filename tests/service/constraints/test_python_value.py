"""Values in Python's syntax are held to their schemas, in single quotes as in double ones."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from service.constraints.tool_grammar import tool_grammar
from service.constraints.tool_rules import ToolRules
from service.generation.errors import UnsupportedConstraint
from service.generation.prompts.conversation import Function
from service.output.families.keyword_calls import PYTHONIC
from tests.engine.constraints.fakes import END, tokenizer_of
from tests.service.constraints.fakes import accepts

TOKENIZER: Final = tokenizer_of()
PLACE: Final = {
    "type": "object",
    "properties": {"x": {"type": "number"}, "y": {"type": "string"}},
    "required": ["x"],
    "additionalProperties": False,
}
NULLABLE_TREE: Final = {
    "type": "object",
    "properties": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/properties/v"}]}},
}
TREE: Final = {"type": "object", "properties": {"a": {"type": "array", "items": {"$ref": "#/properties/v"}}}}


def is_allowed(schema: Any, value: str, **fields: Any) -> bool:
    """Return True if a call with this value of a parameter is allowed."""
    parameters = json.dumps({"type": "object", "properties": {"v": schema}, "required": ["v"]})
    function = Function("f", parameters=parameters, field="tools[0].function", **fields)
    grammar = tool_grammar(ToolRules([function], PYTHONIC, required=True, single=True, field="tools"), {}, None)
    return accepts(grammar, TOKENIZER, f"[f(v={value})]{END}")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "'Oslo'"),
        ({"type": "string"}, '"Oslo"'),
        ({"type": "string"}, r"'it\'s \"here\"\n'"),
        ({"type": "string"}, "''"),
        ({"type": "string", "pattern": "^[A-Z]{2}$"}, "'NO'"),
        ({"type": "string", "maxLength": 3}, "'abc'"),
        ({"type": "string", "format": "date"}, "'2024-02-28'"),
        ({"type": "string", "format": "date-time"}, "'2024-12-31T23:59:59Z'"),
        ({"type": "string", "format": "email"}, '"a@b.no"'),
        ({"enum": ["it's", 1, None, True]}, '"it\'s"'),
        ({"enum": ["a", 1, None, True]}, "'a'"),
        ({"enum": ["a", 1, None, True]}, "None"),
        ({"enum": ["a", 1, None, True]}, "true"),
        ({"type": "boolean"}, "False"),
        ({"type": ["integer", "null"]}, "None"),
        ({"type": ["integer", "null"]}, "7"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "'a'"),
        ({"type": "array", "items": {"type": "string"}}, "['a', \"b\",'c']"),
        ({"type": "array", "maxItems": 2}, "[1, {'a': [True]}]"),
        ({"type": "array", "maxItems": 0}, "[]"),
        (PLACE, "{'x': 1.5}"),
        (PLACE, "{\"x\": 1, 'y': 'z'}"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "{'a': 1, 'b': 2}"),
        ({"type": "object", "additionalProperties": False}, "{}"),
        ({}, "[None, {'a': 'b'}, -1.5, \"x\"]"),
        (True, "'a'"),
        ({"description": "anything"}, "{'a': [None]}"),
        ({"type": ["string", "string"]}, "'a'"),
        (NULLABLE_TREE, "{'a': {'a': None}}"),
        (TREE, "{'a': [{'a': []}, {}]}"),
        ({"allOf": [{"type": "integer"}]}, "3"),
    ],
)
def test_matching_values_are_allowed_in_pythons_notation(schema: Any, value: str) -> None:
    """A value that matches its schema is allowed in the quotes and spellings of Python."""
    assert is_allowed(schema, value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "'a"),
        ({"type": "string"}, "'a\n'"),
        ({"type": "string"}, r"'\x41'"),
        ({"type": "string"}, "None"),
        ({"type": "string", "pattern": "^[A-Z]{2}$"}, "'no'"),
        ({"type": "string", "maxLength": 3}, "'abcd'"),
        ({"type": "string", "minLength": 1}, "''"),
        ({"type": "string", "format": "date"}, "'2024-02-30'"),
        ({"type": "string", "format": "email"}, "'a@b.no'"),  # enforced in double quotes only
        ({"enum": ["a", 1, None, True]}, "'b'"),
        ({"enum": ["a", 1, None, True]}, "False"),
        ({"enum": ["a", None], "type": "string"}, "None"),
        ({"type": "integer", "minimum": 0}, "-1"),
        ({"type": "array", "items": {"type": "string"}}, "['a', 1]"),
        ({"type": "array", "maxItems": 2}, "[1, 2, 3]"),
        ({"type": "array", "minItems": 2}, "[1]"),
        (PLACE, "{'y': 'z'}"),
        (PLACE, "{'x': 1, 'z': 2}"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "{'a': 'b'}"),
        (TREE, "{'a': [{'b': []}]}"),
        ({"allOf": [{"type": "integer"}]}, "'a'"),
    ],
)
def test_values_that_do_not_match_are_forbidden(schema: Any, value: str) -> None:
    """A value that doesn't match its schema is not allowed, however it is written."""
    assert not is_allowed(schema, value)


@pytest.mark.parametrize("keyword", ["uniqueItems", "contains"])
def test_unsupported_keywords_are_named(keyword: str) -> None:
    """A schema that can't be enforced is an error about its parameter, as in JSON."""
    with pytest.raises(UnsupportedConstraint, match=keyword) as caught:
        is_allowed({"type": "array", keyword: True}, "[]", strict=True)
    assert caught.value.field.startswith("tools[0].function.parameters")
