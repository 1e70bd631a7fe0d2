"""The few limits of the contract that can't wait for the service.

Owns two checks: an integer that a message's field can't hold, and a list so long that to convert it would keep other
requests waiting. The limit told is the contract's own, read from its annotations, so that it stands in one place.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def check_length(message: type[Message], name: str, items: Sequence[object], field: str) -> None:
    """Refuse more `items` than the message's repeated field `name` takes. Raises Failure for `field`."""
    limit = _rules(message.DESCRIPTOR.fields_by_name[name]).repeated.max_items
    if len(items) > limit:
        raise Failure.of_field(field, f"must have at most {limit} items")


def _limits(message: Message, name: str) -> tuple[int, int]:
    field = message.DESCRIPTOR.fields_by_name[name]
    rules = _rules(field)
    numbers = rules.uint32 if field.type == FieldDescriptor.TYPE_UINT32 else rules.uint64
    low = numbers.gte if numbers.HasField("gte") else 0
    return low, numbers.lte if numbers.HasField("lte") else _MAX_BY_TYPE[field.type]


def _rules(field: Any) -> Any:
    return field.GetOptions().Extensions[validate_pb2.field]
