"""JSON Schemas of typed models for OpenAPI 3.1, and ways through them by a field's path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

Schema: TypeAlias = dict[str, Any]

_REFERENCE = "#/components/schemas/"


def to_schemas(types: Iterable[type]) -> tuple[list[Schema], dict[str, Schema]]:
    """The schema of each type, and those that they refer to, by name."""
    found, components = msgspec.json.schema_components(types, ref_template=_REFERENCE + "{name}")
    return list(found), components


def resolve(schema: Schema, schemas: Mapping[str, Schema]) -> Schema:
    """What a reference refers to; anything else is itself."""
    while "$ref" in schema:
        schema = schemas[schema["$ref"].removeprefix(_REFERENCE)]
    return schema


def branches(schema: Schema, schemas: Mapping[str, Schema]) -> Iterator[Schema]:
    """The alternatives of a schema, references followed; one without alternatives is its only one."""
    schema = resolve(schema, schemas)
    if "anyOf" not in schema:
        yield schema
        return
    for each in schema["anyOf"]:
        yield from branches(each, schemas)


def follow(schema: Schema, path: str, schemas: Mapping[str, Schema]) -> Schema | None:
    """The schema of a field by its dotted path, a number standing for a list's items; None if there is none."""
    place = schema
    for part in path.split(".") if path else ():
        key = "items" if part.isdigit() else None
        inner = None
        for branch in branches(place, schemas):
            inner = branch.get("items") if key else branch.get("properties", {}).get(part)
            if inner:
                break
        if not inner:
            return None
        place = inner
    return place
