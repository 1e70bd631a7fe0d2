"""Prepare JSON Schemas for generation.

Every change narrows the schema: a value that matches the prepared schema also matches the given one.
"""

from __future__ import annotations

import copy
from typing import Any

from service.generation.formats.json_schema import walk

USUAL_INDENT = 16  # spaces: enough for every usual layout, and bounded for a model that repeats it
_ENFORCED_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"}
)
_OBJECT = frozenset({"properties", "required", "additionalProperties", "minProperties", "maxProperties"})
_OPEN_OBJECT = frozenset({"additionalProperties", "minProperties"})
_COMBINING = frozenset({"allOf", "oneOf", "not", "if", "patternProperties", "dependentSchemas", "dependentRequired"})


def prepare_schema(schema: Any, *, strict: bool, indent: int = USUAL_INDENT) -> dict[str, Any]:
    """Return the schema for generation.

    White space is limited to one space, or a line end with at most `indent` spaces. Objects get no properties except
    those in `properties`, so that a bounded schema ends by itself, unless schemas are combined. Unless `strict`, a
    `format` that can't be enforced is an annotation, as in the JSON Schema standard.
    """
    if not isinstance(schema, dict):
        schema = {} if schema is True else {"not": {}}
    prepared: dict[str, Any] = copy.deepcopy(schema)
    if not strict:
        _remove_unenforced_formats(prepared)
    _close(prepared)
    layout = {"whitespace_flexible": True, "whitespace_pattern": rf"( |\n {{0,{indent}}})?"}
    return prepared | {"x-guidance": layout}


def _remove_unenforced_formats(schema: dict[str, Any]) -> None:
    """Remove each `format` that can't be enforced."""
    for _, subschema in walk(schema):
        if isinstance(subschema.get("format"), str) and subschema["format"] not in _ENFORCED_FORMATS:
            del subschema["format"]


def _close(schema: dict[str, Any]) -> None:
    """Forbid unlisted properties, unless schemas are combined: both might then forbid each other's properties."""
    subschemas = [subschema for _, subschema in walk(schema)]
    if any(_is_combined(subschema) for subschema in subschemas):
        return
    for subschema in subschemas:
        if not _OPEN_OBJECT & subschema.keys() and _lists_properties(subschema):
            subschema["additionalProperties"] = False


def _lists_properties(schema: dict[str, Any]) -> bool:
    """Return True if the schema has `properties`, and `required` names only these."""
    properties, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return False
    return all(isinstance(name, str) and name in properties for name in required)


def _is_combined(schema: dict[str, Any]) -> bool:
    """Return True if the schema describes a value together with another schema."""
    descriptions = [{"anyOf"} & schema.keys(), {"$ref"} & schema.keys(), _OBJECT & schema.keys()]
    return bool(_COMBINING & schema.keys()) or sum(map(bool, descriptions)) > 1
