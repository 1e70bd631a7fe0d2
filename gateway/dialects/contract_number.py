"""Puts integers into the contract's messages.

Owns the one check that can't wait for the service: an integer that the message's field can't hold. The limit told is
the contract's own, read from its annotations, so that it stands in one place.
"""

from __future__ import annotations

from typing import Any, Final

from buf.validate import validate_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from gateway.dialects.failure import Failure

_MAX_BY_TYPE: Final = {FieldDescriptor.TYPE_UINT32: 2**32 - 1, FieldDescriptor.TYPE_UINT64: 2**64 - 1}


def put(message: Message, name: str, value: int | None, field: str) -> None:
    """Set the unsigned field `name`, unless `value` is None. Raises Failure for `field`, the caller's name of it."""
    if value is None:
        return
    try:
        setattr(message, name, value)
    except ValueError:
        low, high = _limits(message, name)
        raise Failure.of_field(field, f"must be from {low} to {high}") from None


def _limits(message: Message, name: str) -> tuple[int, int]:
    field = message.DESCRIPTOR.fields_by_name[name]
    options: Any = field.GetOptions()
    rules = options.Extensions[validate_pb2.field]
    numbers = rules.uint32 if field.type == FieldDescriptor.TYPE_UINT32 else rules.uint64
    low = numbers.gte if numbers.HasField("gte") else 0
    return low, numbers.lte if numbers.HasField("lte") else _MAX_BY_TYPE[field.type]
