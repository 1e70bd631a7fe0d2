"""A function for whose calls a grammar is made, its parameters, and the constants that their schemas allow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.constraints.lark import quote
from service.output.calls.argument_value import resolved
from service.output.families.tool_syntax import Schema

_RESTRICTING = frozenset({"$ref", "allOf", "const", "enum", "if", "not", "oneOf"})
_COMBINING = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "$ref"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function, with the name of its grammar rule."""

    rule: str
    key: str
    schema: Any
    is_required: bool


@dataclass(frozen=True, slots=True)
class CalledFunction:
    """A function for which a grammar is made.

    `rule` is the name of its grammar rule, `field` the request's field with its parameters. If it is `lenient`, values
    are unconstrained where the schemas of its parameters can't be enforced.
    """

    rule: str
    name: str
    parameters: Schema
    field: str
    strict: bool = False
    lenient: bool = False

    def listed_parameters(self) -> list[Parameter] | None:
        """Return the parameters in the schema's order; None if a call may also have parameters that it doesn't list."""
        schema = resolved(self.parameters, self.parameters)
        listed = schema.get("properties") if isinstance(schema, Mapping) else None
        if not isinstance(listed, Mapping) or _COMBINING & schema.keys() or schema.get("additionalProperties"):
            return None
        required = schema.get("required")
        required = required if isinstance(required, list) else []
        return [
            Parameter(f"{self.rule}_{index}", key, resolved(value, schema), key in required)
            for index, (key, value) in enumerate(listed.items())
        ]


def python_constants(schema: Any, types: frozenset[str]) -> list[str]:
    """Return Python's spellings of the constants that a schema of these types allows; templates write both."""
    if not _names_types_only(schema):
        return []
    kinds = {"True": "boolean", "False": "boolean", "None": "null"}
    return [quote(text) for text, kind in kinds.items() if kind in types]


def _names_types_only(schema: Any) -> bool:
    """Return whether a schema restricts constants only by their type."""
    if not isinstance(schema, Mapping) or _RESTRICTING & schema.keys():
        return False
    alternatives = schema.get("anyOf", [])
    return isinstance(alternatives, list) and all(map(_names_types_only, alternatives))


def constant_texts(schema: Any) -> list[str]:
    """Return the texts that a schema allows as the value; none if it doesn't list them."""
    if not isinstance(schema, Mapping):
        return []
    listed = [schema["const"]] if "const" in schema else schema.get("enum", [])
    if not isinstance(listed, list):
        return []
    return [value if isinstance(value, str) else json.dumps(value) for value in listed]
