"""JSON Schemas of types for OpenAPI 3.1, and their parts by the path of a field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

Schema: TypeAlias = dict[str, Any]

_REFERENCE = "#/components/schemas/"


def to_schemas(types: Iterable[type]) -> tuple[list[Schema], dict[str, Schema]]:
    """Return the schema of each type, and the schemas that they refer to, by name."""
    found, components = msgspec.json.schema_components(types, ref_template=_REFERENCE + "{name}")
    return list(found), components


def resolve(schema: Schema, schemas: Mapping[str, Schema]) -> Schema:
    """Return the schema that a reference refers to, or the schema itself if it is none."""
    while "$ref" in schema:
        schema = schemas[schema["$ref"].removeprefix(_REFERENCE)]
    return schema


def branches(schema: Schema, schemas: Mapping[str, Schema]) -> Iterator[Schema]:
    """Yield the alternatives of a schema, with references resolved; a schema without alternatives is its own."""
    schema = resolve(schema, schemas)
    if "anyOf" not in schema:
        yield schema
        return
    for each in schema["anyOf"]:
        yield from branches(each, schemas)


def follow(schema: Schema, path: str, schemas: Mapping[str, Schema]) -> Schema | None:
    """Return the schema of a field by its dotted path, with a number for the items of a list; None if there is none."""
    current = schema
    for part in path.split(".") if path else ():
        key = "items" if part.isdigit() else None
        inner = None
        for branch in branches(current, schemas):
            inner = branch.get("items") if key else branch.get("properties", {}).get(part)
            if inner:
                break
        if not inner:
            return None
        current = inner
    return current
