"""Convert a value that a model wrote as plain text to JSON, by the types that its schema allows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from service.output.families.tool_syntax import Schema

_ANY = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})
_MAX_REFERENCES = 16  # followed in a chain
_AS_JSON = {"True": "true", "False": "false", "None": "null"}  # Python's spelling


def value_schema(parameters: Schema, key: str) -> Any:
    """Return the schema of a parameter; an empty one if there is none."""
    properties = parameters.get("properties")
    if isinstance(properties, Mapping) and key in properties:
        return resolved(properties[key], parameters)
    return resolved(parameters.get("additionalProperties", {}), parameters)


def resolved(schema: Any, root: Schema) -> Any:
    """Return a schema, or the one inside `root` that it refers to."""
    for _ in range(_MAX_REFERENCES):
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(reference, str) or not reference.startswith("#"):
            break
        schema = root
        for part in reference[1:].split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            schema = schema.get(name, {}) if isinstance(schema, Mapping) else {}
    return schema


def allowed_types(schema: Any, root: Schema) -> frozenset[str]:
    """Return the names of the types that a schema allows; all of them if it doesn't restrict them."""
    found: set[str] = set()
    seen: set[int] = set()  # schemas may be recursive: visit each once
    left = [schema]
    while left:
        each = resolved(left.pop(), root)
        if id(each) in seen:
            continue
        seen.add(id(each))
        alternatives = _alternatives(each)
        if alternatives:
            left += alternatives
        elif types := _own_types(each):
            found |= types
        else:
            return _ANY
    return frozenset(found) or _ANY


def json_value(text: str, types: frozenset[str]) -> str:
    """Return the JSON of a value written as `text`.

    JSON of an allowed type other than a string is returned as it is. Anything else becomes a string, even if no string
    is allowed.
    """
    if types != {"string"}:
        written = text.strip()
        written = _AS_JSON.get(written, written)
        try:
            value = json.loads(written, parse_constant=_reject_constant)
        except (ValueError, RecursionError):
            pass
        else:
            if _fits(value, types):
                return written
    return json.dumps(text, ensure_ascii=False)


def _alternatives(schema: Any) -> list[Any]:
    """Return the alternatives of a schema, if nothing else in it determines a type."""
    if not isinstance(schema, Mapping) or schema.get("type") is not None or "const" in schema:
        return []
    alternatives = schema.get("anyOf", schema.get("oneOf"))
    return alternatives if isinstance(alternatives, list) and not isinstance(schema.get("enum"), list) else []


def _own_types(schema: Any) -> frozenset[str]:
    """Return the types that a schema itself names; none if it names none."""
    if not isinstance(schema, Mapping):
        return frozenset()
    given = schema.get("type")
    if given is not None:
        return frozenset(name for name in (given if isinstance(given, list) else [given]) if isinstance(name, str))
    if "const" in schema:
        return frozenset({_type(schema["const"])})
    if isinstance(schema.get("enum"), list):
        return frozenset(map(_type, schema["enum"]))
    return frozenset({"object"}) if "properties" in schema else frozenset()


def _fits(value: Any, types: frozenset[str]) -> bool:
    """Return whether a value has one of the types that its schema allows."""
    name = _type(value)
    if name == "string":
        return "string" not in types  # a quoted string is a text that includes the quotes
    return name in types or (name == "integer" and "number" in types) or not types & _ANY


def _type(value: Any) -> str:
    """Return the JSON Schema type of a value."""
    if value is None:
        return "null"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    names = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
    return names[type(value)]


def _reject_constant(constant: str) -> Any:
    """Raise ValueError for a constant that is not JSON."""
    raise ValueError(constant)  # NaN and Infinity are not JSON
