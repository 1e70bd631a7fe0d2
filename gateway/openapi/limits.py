"""The contract's limits as keywords of JSON Schema.

Each dialect maps the contract's fields to its own, so that limits are defined in the `.proto` files only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
_LOWER: Final = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems"})


def add_limits(body: Schema, schemas: Mapping[str, Schema], message: Any, caller_name: Callable[[str], str]) -> None:
    """Add the limits of `message`, a descriptor, to `body` and to the `schemas` that it refers to.

    A field that is parsed into several fields of the contract gets the limits that all of them have.
    """
    limits: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for path, kind, keywords in contract_limits(message):
        limits.setdefault((caller_name(path), kind), []).append(keywords)
    for (name, kind), several in limits.items():
        found = follow(body, name, schemas)
        for branch in branches(found, schemas) if found is not None else ():
            if _kind(branch.get("type")) == kind:
                branch.update({keyword: value for keyword, value in _widest(several).items() if keyword not in branch})


def contract_limits(message: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (path, JSON type, keywords) of every field; lists are entered at their index 0."""
    for field in message.fields:
        path, rules = f"{prefix}{field.name}", _rules(field)
        kind, keywords = _keywords(field, rules)
        yield path, kind, keywords
        is_list = kind == "array"
        if is_list and field.type == FieldDescriptor.TYPE_STRING:
            yield f"{path}.0", "string", _string_keywords(rules.repeated.items.string)
        if field.message_type is not None and kind in {"array", "message"} and depth < _MAX_DEPTH:
            yield from contract_limits(field.message_type, f"{path}{'.0' if is_list else ''}.", depth + 1)


def _kind(json_type: object) -> object:
    return "number" if json_type == "integer" else json_type


def _widest(several: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the keywords that all have, each with its least restrictive value."""
    shared = set.intersection(*(set(keywords) for keywords in several))
    found: dict[str, Any] = {}
    for keyword in sorted(shared):
        values = {keywords[keyword] for keywords in several}
        if keyword != "pattern":
            found[keyword] = min(values) if keyword in _LOWER else max(values)
        elif len(values) == 1:
            found[keyword] = values.pop()
    return found


def _rules(field: Any) -> Any:
    return field.GetOptions().Extensions[validate_pb2.field]


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _keywords(field: Any, rules: Any) -> tuple[str, dict[str, Any]]:
    """Return a field's JSON type, and the keywords of its rules."""
    if _is_map(field):
        return "object", {"maxProperties": rules.map.max_pairs} if rules.map.HasField("max_pairs") else {}
    if field.is_repeated:
        names = {"min_items": "minItems", "max_items": "maxItems"}
        return "array", {names[name]: getattr(rules.repeated, name) for name in names if rules.repeated.HasField(name)}
    if field.type == FieldDescriptor.TYPE_STRING:
        return "string", _string_keywords(rules.string)
    if field.type in _NUMBERS:
        numbers = getattr(rules, _NUMBERS[field.type])
        bounds = {_BOUNDS[name]: getattr(numbers, name) for name in _BOUNDS if numbers.HasField(name)}
        if field.type == FieldDescriptor.TYPE_UINT32:
            bounds = {"minimum": 0, "maximum": _MAX_UINT32, **bounds}
        return "number", bounds
    return "message", {}


def _string_keywords(rules: Any) -> dict[str, Any]:
    """Return the keywords of a string's rules."""
    names = {"min_len": "minLength", "max_len": "maxLength", "pattern": "pattern"}
    return {names[name]: getattr(rules, name) for name in names if rules.HasField(name)}
