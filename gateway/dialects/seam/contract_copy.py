"""Copy a body's fields to the fields of the same names in a message of the contract.

A new field of the contract needs one line in each body that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from gateway.dialects.seam.contract_limit import check_length, put, type_limits
from gateway.dialects.seam.failure import Failure

# Sets the named field of a message to a value; the last argument is the caller's name of the field.
_Copy: TypeAlias = Callable[[Message, str, Any, str], None]

_INTEGERS: Final = frozenset(
    {FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64}
)
_DIALECTS_OWN: Final = frozenset({FieldDescriptor.TYPE_ENUM, FieldDescriptor.TYPE_MESSAGE})  # mapped by each dialect


def copy_fields(body: msgspec.Struct, message: Message, prefix: str = "", *, but: Collection[str] = ()) -> None:
    """Set each field of `message` that `body` has under the same name and that is given.

    Fields are numbers, booleans and strings, and lists and maps of them. `but` excludes fields that the dialect
    converts itself; `prefix` is put before the caller's names. Raise Failure for a value outside the contract's types,
    and for lists and maps that are too long.
    """
    for name, copy in _copies(type(body), message.DESCRIPTOR):
        value = getattr(body, name)
        if value is not None and name not in but:
            copy(message, name, value, prefix + name)


@cache
def _copies(body: type[msgspec.Struct], message: Descriptor) -> tuple[tuple[str, _Copy], ...]:
    """Return the name of each shared field, and the function that copies it."""
    names = set(body.__struct_fields__)
    return tuple(
        (field.name, copy) for field in message.fields if field.name in names and (copy := _copy_of(field)) is not None
    )


def _copy_of(field: Any) -> _Copy | None:
    """Return the function that copies a value to a field; None for a field whose form depends on the dialect."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _copy_map
    if field.type in _DIALECTS_OWN:
        return None
    if field.is_repeated:
        return _copy_list
    return put if field.cpp_type in _INTEGERS else _copy_plain


def _copy_plain(message: Message, field: str, value: Any, name: str) -> None:  # noqa: ARG001  it can't fail
    setattr(message, field, value)


def _copy_list(message: Message, field: str, items: Sequence[Any], name: str) -> None:
    """Copy a list. Raise Failure if it is too long or an item is out of range."""
    check_length(type(message), field, items, name)
    copied = getattr(message, field)
    for i, item in enumerate(items):
        try:
            copied.append(item)
        except ValueError:
            low, high = type_limits(message.DESCRIPTOR.fields_by_name[field])
            raise Failure.of_field(f"{name}.{i}", f"must be from {low} to {high}") from None


def _copy_map(message: Message, field: str, items: Mapping[Any, Any], name: str) -> None:
    """Copy a mapping. Raise Failure if it is too large or an item is out of range."""
    check_length(type(message), field, items, name)
    copied = getattr(message, field)
    for key, item in items.items():
        try:
            copied[key] = item
        except ValueError:
            entry: Any = message.DESCRIPTOR.fields_by_name[field].message_type
            low, high = type_limits(entry.fields_by_name["key"])
            raise Failure.of_field(f"{name}.{key}", f"the key must be from {low} to {high}") from None
