"""Copies a body's fields to a message of the contract that has fields of the same names.

A new field of the contract needs one line in each body that has it: the field.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from gateway.dialects.seam.contract_limit import check_length, put, type_limits
from gateway.dialects.seam.failure import Failure

_DIALECTS_OWN: Final = frozenset({FieldDescriptor.TYPE_ENUM, FieldDescriptor.TYPE_MESSAGE})  # have names of its own


def copy_fields(body: msgspec.Struct, message: Message, prefix: str = "", *, but: Collection[str] = ()) -> None:
    """Set each field of `message` that `body` has by the same name, and that is given.

    These are numbers, booleans and texts, and lists and maps of them. `but` are those that the dialect reads in another
    way; `prefix` stands before the caller's names. Raises Failure for a value that no message can hold, and for lists
    and maps that are too long.
    """
    for field in _shared_fields(type(body), message.DESCRIPTOR):
        value = getattr(body, field.name)
        if value is None or field.name in but:
            continue
        name = prefix + field.name
        if field.message_type is not None:
            _copy_map(message, field, value, name)
        elif field.is_repeated:
            _copy_list(message, field, value, name)
        elif isinstance(value, int):
            put(message, field.name, value, name)
        else:
            setattr(message, field.name, value)


@cache
def _shared_fields(body: type[msgspec.Struct], message: Descriptor) -> tuple[Any, ...]:
    names = set(body.__struct_fields__)
    return tuple(field for field in message.fields if field.name in names and (_is_map(field) or _is_plain(field)))


def _is_plain(field: Any) -> bool:
    return field.type not in _DIALECTS_OWN


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _copy_list(message: Message, field: Any, items: Sequence[Any], name: str) -> None:
    check_length(type(message), field.name, items, name)
    copied = getattr(message, field.name)
    for i, item in enumerate(items):
        try:
            copied.append(item)
        except ValueError:
            low, high = type_limits(field)
            raise Failure.of_field(f"{name}.{i}", f"must be from {low} to {high}") from None


def _copy_map(message: Message, field: Any, items: Mapping[Any, Any], name: str) -> None:
    check_length(type(message), field.name, items, name)
    copied = getattr(message, field.name)
    for key, item in items.items():
        try:
            copied[key] = item
        except ValueError:
            low, high = type_limits(field.message_type.fields_by_name["key"])
            raise Failure.of_field(f"{name}.{key}", f"the key must be from {low} to {high}") from None
