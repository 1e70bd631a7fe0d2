"""The contract's limits as keywords of JSON Schema.

Owns the translation of protovalidate rules, and where they go in a body's schema: each dialect knows its own name for
every field of the contract, so that a limit stands in the `.proto` alone. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from buf.validate import validate_pb2
from google.protobuf.descriptor import FieldDescriptor

from gateway.openapi.schema import Schema, branches, follow

_MAX_DEPTH: Final = 4
_MAX_UINT32: Final = 2**32 - 1
_NUMBERS: Final = {
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_UINT64: "uint64",
}
_BOUNDS: Final = {"gte": "minimum", "lte": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
_NUMERIC: Final = frozenset({"integer", "number"})
_TYPES: Final = {  # keyword → the JSON types that it speaks of
    **dict.fromkeys(_BOUNDS.values(), _NUMERIC),
    **dict.fromkeys(("minLength", "maxLength", "pattern"), frozenset({"string"})),
    **dict.fromkeys(("minItems", "maxItems"), frozenset({"array"})),
    "maxProperties": frozenset({"object"}),
}


def add_limits(body: Schema, schemas: Mapping[str, Schema], message: Any, caller_name: Callable[[str], str]) -> None:
    """Put the limits of `message`, a descriptor, into `body` and into the `schemas` that it refers to."""
    for path, keywords in contract_limits(message):
        place = follow(body, caller_name(path), schemas)
        for branch in branches(place, schemas) if place is not None else ():
            fitting = {name: value for name, value in keywords.items() if branch.get("type") in _TYPES[name]}
            branch.update({name: value for name, value in fitting.items() if name not in branch})


def contract_limits(message: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, dict[str, Any]]]:
    """(path, keywords) of every field with a limit; lists are entered at their index 0."""
    for field in message.fields:
        path = f"{prefix}{field.name}"
        rules = _rules(field)
        if keywords := _keywords(field, rules):
            yield path, keywords
        is_list = field.is_repeated and not _is_map(field)
        if is_list and rules.repeated.HasField("items") and (inner := _string_keywords(rules.repeated.items.string)):
            yield f"{path}.0", inner
        if field.message_type is not None and not _is_map(field) and depth < _MAX_DEPTH:
            yield from contract_limits(field.message_type, f"{path}{'.0' if is_list else ''}.", depth + 1)


def _rules(field: Any) -> Any:
    return field.GetOptions().Extensions[validate_pb2.field]


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _keywords(field: FieldDescriptor, rules: Any) -> dict[str, Any]:
    if _is_map(field):
        return {"maxProperties": rules.map.max_pairs} if rules.map.HasField("max_pairs") else {}
    if field.is_repeated:
        names = {"min_items": "minItems", "max_items": "maxItems"}
        return {names[name]: getattr(rules.repeated, name) for name in names if rules.repeated.HasField(name)}
    if field.type == FieldDescriptor.TYPE_STRING:
        return _string_keywords(rules.string)
    if field.type in _NUMBERS:
        numbers = getattr(rules, _NUMBERS[field.type])
        bounds = {_BOUNDS[name]: getattr(numbers, name) for name in _BOUNDS if numbers.HasField(name)}
        if field.type == FieldDescriptor.TYPE_UINT32:
            bounds = {"minimum": 0, "maximum": _MAX_UINT32, **bounds}
        return bounds
    return {}


def _string_keywords(rules: Any) -> dict[str, Any]:
    names = {"min_len": "minLength", "max_len": "maxLength", "pattern": "pattern"}
    return {names[name]: getattr(rules, name) for name in names if rules.HasField(name)}
