"""Schemas that are prepared for generation are always narrower."""

from __future__ import annotations

from typing import Any

import pytest

from service.constraints.schema import prepare_schema

CLOSED = {"additionalProperties": False}


def prepared(schema: Any) -> dict[str, Any]:
    result = prepare_schema(schema, strict=False)
    assert result.pop("x-guidance")["whitespace_pattern"]
    return result


@pytest.mark.parametrize(
    ("schema", "narrowed"),
    [
        ({"properties": {"a": {}}}, {"properties": {"a": {}}} | CLOSED),
        ({"properties": {}}, {"properties": {}} | CLOSED),
        ({"properties": {"a": {"properties": {}}}}, {"properties": {"a": {"properties": {}} | CLOSED}} | CLOSED),
        ({"items": {"properties": {}}}, {"items": {"properties": {}} | CLOSED}),
        (
            {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}], "$defs": {"x": {"properties": {}}}},
            {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}], "$defs": {"x": {"properties": {}} | CLOSED}},
        ),
        ({"format": "iri"}, {}),
        ({"format": "uuid"}, {"format": "uuid"}),
        ({"properties": {"format": {"type": "string"}}}, {"properties": {"format": {"type": "string"}}} | CLOSED),
        ({"const": {"format": "iri"}}, {"const": {"format": "iri"}}),
        (True, {}),
        (False, {"not": {}}),
    ],
)
def test_prepared_schema_forbids_unlisted_properties(schema: Any, narrowed: dict[str, Any]) -> None:
    """Unlisted properties are forbidden, and unknown formats are annotations."""
    assert prepared(schema) == narrowed


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"properties": {"a": {}}, "additionalProperties": {"type": "string"}},
        {"properties": {"a": {}}, "patternProperties": {"^b": {}}},
        {"properties": {"a": {}}, "required": ["b"]},
        {"properties": {"a": {}}, "required": True},
        {"properties": {"a": {}}, "anyOf": [{"properties": {"b": {}}, "required": ["b"]}, {}]},
        {"properties": {"a": {}}, "minProperties": 2},
        {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]},
        {"oneOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]},
        {"properties": {"a": {}}, "$ref": "#/$defs/x", "$defs": {"x": {"properties": {"b": {}}}}},
    ],
)
def test_object_described_by_several_schemas_stays_open(schema: dict[str, Any]) -> None:
    """Closing one of several descriptions of an object could leave nothing that matches all of them."""
    assert prepared(schema) == schema


def test_clients_schema_is_copied() -> None:
    """The client's value is copied."""
    schema: dict[str, Any] = {"properties": {"a": {"properties": {}}}}
    prepare_schema(schema, strict=False)
    assert schema == {"properties": {"a": {"properties": {}}}}
