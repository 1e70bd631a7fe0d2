"""JSON Schemas made ready for generation.

Every change narrows: what matches the prepared schema matches the given one.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

# One space, or a line end with its indentation: enough for every usual layout, and no model can spin in it.
_LAYOUT = {"whitespace_flexible": True, "whitespace_pattern": r"( |\n {0,16})?"}
_ENFORCED_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"}
)
# Keywords whose value is one schema, a list of schemas, or schemas by name.
_ONE = ("additionalProperties", "items", "contains", "not", "if", "then", "else", "propertyNames")
_MANY = ("prefixItems", "allOf", "anyOf", "oneOf")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_OBJECT = frozenset({"properties", "required", "additionalProperties", "minProperties", "maxProperties"})
_OPEN_OBJECT = frozenset({"additionalProperties", "minProperties"})
_COMBINING = frozenset({"allOf", "oneOf", "not", "if", "patternProperties", "dependentSchemas", "dependentRequired"})


def prepare_schema(schema: Any, *, strict: bool) -> dict[str, Any]:
    """The schema to generate by.

    White space is bounded. An object whose `properties` are listed has no others, so that a bounded schema ends by
    itself; not so where schemas are combined. Unless `strict`, a `format` that can't be enforced is the
    annotation that the standard makes of it.
    """
    if not isinstance(schema, dict):
        schema = {} if schema is True else {"not": {}}
    prepared: dict[str, Any] = copy.deepcopy(schema)
    if not strict:
        _annotate(prepared)
    _close(prepared)
    return prepared | {"x-guidance": _LAYOUT}


def blame(schema: Any, refusal: str) -> str:
    """What to tell of the compiler's `refusal`: the keyword and its path in the schema, where they can be found."""
    text = refusal.strip().splitlines()[0] if refusal.strip() else "the schema can't be compiled"
    for keyword, value in _suspects(refusal):
        for path, subschema in _walk(schema, ""):
            if keyword in subschema and (value is None or subschema[keyword] == value):
                return f"the keyword {keyword} at {path}/{_escape(keyword)} can't be enforced: {text}"
    return text


def _suspects(refusal: str) -> Iterator[tuple[str, Any]]:
    if unimplemented := re.search(r"Unimplemented keys: \[(.*?)\]", refusal):
        for keyword in re.findall(r'"([^"]*)"', unimplemented[1]):
            yield keyword, None
    if unknown_format := re.search(r"Unknown format: (\S+)", refusal):
        yield "format", unknown_format[1]
    if pointer := re.search(r"Pointer '([^']*)' does not exist", refusal):
        yield "$ref", "#" + pointer[1]
    if unknown_type := re.search(r"Invalid type: (\S+)", refusal):
        yield "type", unknown_type[1]
    if "oneOf" in refusal:
        yield "oneOf", None
    if "regex parse error" in refusal:
        for line in refusal.splitlines():
            yield "pattern", line.strip()


def _walk(schema: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """All subschemas with their JSON pointers, outer ones first."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for keyword in _ONE:
        yield from _walk(schema.get(keyword), f"{path}/{keyword}")
    for keyword in _MANY:
        if isinstance(subschemas := schema.get(keyword), list):
            for index, subschema in enumerate(subschemas):
                yield from _walk(subschema, f"{path}/{keyword}/{index}")
    for keyword in _NAMED:
        if isinstance(named := schema.get(keyword), dict):
            for name, subschema in named.items():
                yield from _walk(subschema, f"{path}/{keyword}/{_escape(name)}")


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _annotate(schema: dict[str, Any]) -> None:
    """Leave out the formats that can't be enforced."""
    for _, subschema in _walk(schema, ""):
        if isinstance(subschema.get("format"), str) and subschema["format"] not in _ENFORCED_FORMATS:
            del subschema["format"]


def _close(schema: dict[str, Any]) -> None:
    """Leave out unlisted properties, unless two schemas speak about one object: they might not leave anything then."""
    subschemas = [subschema for _, subschema in _walk(schema, "")]
    if any(_shares(subschema) for subschema in subschemas):
        return
    for subschema in subschemas:
        if not _OPEN_OBJECT & subschema.keys() and _lists_properties(subschema):
            subschema["additionalProperties"] = False


def _lists_properties(schema: dict[str, Any]) -> bool:
    properties, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return False
    return all(isinstance(name, str) and name in properties for name in required)


def _shares(schema: dict[str, Any]) -> bool:
    """Whether another schema describes the same value too."""
    descriptions = [{"anyOf"} & schema.keys(), {"$ref"} & schema.keys(), _OBJECT & schema.keys()]
    return bool(_COMBINING & schema.keys()) or sum(map(bool, descriptions)) > 1
