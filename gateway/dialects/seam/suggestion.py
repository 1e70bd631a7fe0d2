"""Suggestions in errors about a body: the known field or value that is closest to an unknown one.

The known names come from the type of the body; `path` is the dotted path of the field, such as `messages.0.role`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from msgspec import inspect

from process.settings.names import suggestion

_OTHER_FIELDS: Final = {  # names that other APIs have for a field
    "max_new_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "max_tokens": "max_output_tokens",
    "stop": "stop_sequences",
    "stop_sequences": "stop",
}
_OTHER_ROLES: Final = {  # names that other APIs have for a role
    "ai": "assistant",
    "bot": "assistant",
    "function": "tool",
    "human": "user",
    "model": "assistant",
}


def suggested_field(kind: Any, path: str) -> str:
    """Return the end of an error about the unknown field at `path`; empty without a close name."""
    above, _, name = path.rpartition(".")
    known = [field.encode_name for struct in _structs(_types_at(kind, above)) for field in struct.fields]
    return _suggested(name, known, _OTHER_FIELDS.get(name))


def suggested_value(kind: Any, path: str, value: str) -> str:
    """Return the end of an error about the unsupported text `value` at `path`; empty without a close text."""
    above, _, name = path.rpartition(".")
    tags = [str(each.tag) for each in _structs(_types_at(kind, above)) if each.tag_field == name]
    known = [*tags, *_texts(_types_at(kind, path))]
    return _suggested(value, known, _OTHER_ROLES.get(value))


def _suggested(name: str, known: Sequence[str], other: str | None) -> str:
    """Return a suggestion: the equivalent of the `other` API's name if it is known here, otherwise the closest name."""
    return f"; did you mean {other}?" if other in known else suggestion(name, dict.fromkeys(known))


def _types_at(kind: Any, path: str) -> list[inspect.Type]:
    types = [_type_info(kind)]
    for step in path.split(".") if path else ():
        types = [inner for each in types for outer in _alternatives(each) for inner in _inner(outer, step)]
    return [each for outer in types for each in _alternatives(outer)]


def _inner(kind: inspect.Type, step: str) -> Iterator[inspect.Type]:
    match kind:
        case inspect.StructType():
            yield from (field.type for field in kind.fields if field.encode_name == step)
        case inspect.ListType():
            yield kind.item_type
        case inspect.DictType():
            yield kind.value_type


def _alternatives(kind: inspect.Type) -> tuple[inspect.Type, ...]:
    return kind.types if isinstance(kind, inspect.UnionType) else (kind,)


def _structs(types: list[inspect.Type]) -> list[inspect.StructType]:
    return [each for each in types if isinstance(each, inspect.StructType)]


def _texts(types: list[inspect.Type]) -> list[str]:
    return [text for each in types if isinstance(each, inspect.LiteralType) for text in map(str, each.values)]


@cache
def _type_info(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)
