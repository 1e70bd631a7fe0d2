"""The parts of a JSON Schema and their paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Keywords whose value is one schema, a list of schemas, or schemas by name.
_ONE = ("additionalProperties", "items", "contains", "not", "if", "then", "else", "propertyNames")
_MANY = ("prefixItems", "allOf", "anyOf", "oneOf")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


def walk(schema: Any, pointer: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all subschemas with their JSON pointers, outer ones first."""
    if not isinstance(schema, dict):
        return
    yield pointer, schema
    for keyword in _ONE:
        yield from walk(schema.get(keyword), f"{pointer}/{keyword}")
    for keyword in _MANY:
        if isinstance(subschemas := schema.get(keyword), list):
            for index, subschema in enumerate(subschemas):
                yield from walk(subschema, f"{pointer}/{keyword}/{index}")
    for keyword in _NAMED:
        if isinstance(named := schema.get(keyword), dict):
            for name, subschema in named.items():
                yield from walk(subschema, f"{pointer}/{keyword}/{escape(name)}")


def escape(name: str) -> str:
    """Return a name as a part of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")
