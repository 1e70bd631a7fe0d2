"""The limits of the contract that must be checked before the service is called.

These are integers outside a field's range, lists whose conversion would block other requests for too long, and texts
and numbers that the service never receives. The limit in the error is the contract's own, read
from its annotations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sized
from functools import cache
from typing import Any, Final

from buf.validate import validate_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from gateway.dialects.seam.failure import Failure

_TYPES: Final = {  # a type's name in the rules, and its range
    FieldDescriptor.TYPE_INT32: ("int32", -(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: ("uint32", 0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: ("uint64", 0, 2**64 - 1),
}

_NUMBERS: Final = {FieldDescriptor.TYPE_FLOAT: "float", FieldDescriptor.TYPE_DOUBLE: "double"} | {
    kind: name for kind, (name, _, _) in _TYPES.items()
}


def put(message: Message, name: str, value: int | None, field: str) -> None:
    """Set the integer field `name`, unless `value` is None. Raise Failure for `field`, its caller's name."""
    if value is None:
        return
    try:
        setattr(message, name, value)
    except ValueError:
        low, high = _limits(message, name)
        raise Failure.of_field(field, f"must be from {low} to {high}") from None


def check_length(message: type[Message], name: str, items: Sized, field: str) -> None:
    """Raise Failure for `field` if the message's repeated field or map `name` can't have as many items as `items`."""
    rules = _rules(message.DESCRIPTOR.fields_by_name[name])
    limit = rules.repeated.max_items or rules.map.max_pairs
    if 0 < limit < len(items):
        raise Failure.of_field(field, f"must have at most {limit} items")


def check_text(message: type[Message], name: str, text: str | None, field: str) -> None:
    """Raise Failure for `field` if `text` violates the length limit of the message's field `name`; None is valid."""
    rules = _rules(message.DESCRIPTOR.fields_by_name[name]).string
    if text is not None and (broken := _broken_text(rules, text)):
        raise Failure.of_field(field, broken)


def check_values(message: Message, caller_name: Callable[[str], str], prefix: str = "") -> None:
    """Raise Failure for a number or a text in the message, or in the messages in it, that its field can't have.

    `caller_name` returns the caller's name of a field's path in the contract; `prefix` is the path to the message.
    """
    for field, value in message.ListFields():
        path, rules = f"{prefix}{field.name}", _rules(field)
        if not field.is_repeated:
            _check_value(field, rules, value, path, caller_name)
        elif field.message_type is None or not field.message_type.GetOptions().map_entry:
            for index, each in enumerate(value):
                _check_value(field, rules.repeated.items, each, f"{path}[{index}]", caller_name)


def _check_value(field: Any, rules: Any, value: Any, path: str, caller_name: Callable[[str], str]) -> None:
    text = None
    if field.message_type is not None:
        check_values(value, caller_name, f"{path}.")
    elif field.type == FieldDescriptor.TYPE_STRING:
        text = _broken_text(rules.string, value)
    elif field.type in _NUMBERS:
        text = _broken_number(getattr(rules, _NUMBERS[field.type]), value)
    if text is not None:
        raise Failure.of_field(caller_name(path), text)


def type_limits(field: Any) -> tuple[int, int]:
    """Return the range of an integer field by its descriptor."""
    _, low, high = _TYPES[field.type]
    return low, high


def _limits(message: Message, name: str) -> tuple[int, int]:
    """Return the lowest and the highest value of an integer field, by its rules and its type."""
    field = message.DESCRIPTOR.fields_by_name[name]
    kind, low, high = _TYPES[field.type]
    rules = getattr(_rules(field), kind)
    return (rules.gte if rules.HasField("gte") else low), (rules.lte if rules.HasField("lte") else high)


def _broken_text(rules: Any, text: str) -> str | None:
    """Return what a text must be, if it isn't."""
    if len(text) < rules.min_len or (rules.HasField("max_len") and len(text) > rules.max_len):
        return f"must have {rules.min_len} to {rules.max_len} characters"
    if rules.HasField("pattern") and re.fullmatch(rules.pattern, text) is None:
        return f"must match the pattern {rules.pattern}"
    return None


def _broken_number(rules: Any, value: float) -> str | None:
    """Return what a number must be, if it isn't."""
    bounds = {
        "gt": (value > rules.gt, "greater than"),
        "gte": (value >= rules.gte, "at least"),
        "lt": (value < rules.lt, "less than"),
        "lte": (value <= rules.lte, "at most"),
    }
    given = [name for name in bounds if rules.HasField(name)]
    if all(bounds[name][0] for name in given):
        return None
    return "must be " + " and ".join(f"{bounds[name][1]} {_digits(getattr(rules, name))}" for name in given)


def _digits(number: float) -> str:
    """Return a limit as its field's documentation has it: whole numbers without an exponent."""
    return f"{number:.0f}" if number == int(number) else f"{number:g}"


@cache  # cached: reading the options costs more than the check
def _rules(field: Any) -> Any:
    return field.GetOptions().Extensions[validate_pb2.field]
