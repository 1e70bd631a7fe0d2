"""Check messages by the protovalidate rules in the contract's .proto files.

The rules are evaluated on the event loop's thread, so no message may take long: the number of items is checked before
the items, and for messages with many items only the first violation is reported.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import protovalidate
from buf.validate import validate_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from service.calls.errors import InvalidMessage, Violation

PATTERNS = {  # a regular expression in the contract → its description in error messages
    "^[A-Za-z0-9_-]{1,64}$": "must be 1 to 64 letters, digits, underscores and dashes",
    "^([0-9a-f]{32})?$": "must be 32 hexadecimal digits in lower case",
    "^[A-Za-z0-9._-]{1,256}$": "must be 1 to 256 letters, digits, dots, underscores and dashes",
}
_LISTS = {  # a rule with a list of values → what the value must be of them
    "string.in": "must be",
    "string.not_in": "must not be",
    "enum.in": "must be",
    "enum.not_in": "must not be",
}
_MAX_VIOLATIONS = 8  # violations are sent in trailing metadata, whose size is limited
_MAX_VALUE_CHARACTERS = 256  # of an invalid value that is returned to the client
_MAX_SEARCHED_ITEMS = 4096  # for messages with more items, only the first violation is reported


class Rules:
    """The rules of some types of messages."""

    def __init__(self, types: Iterable[type[Message]]) -> None:
        """Compile the rules of `types` now, because that would delay the first call."""
        self._validator = _validator(frozenset(types))

    def check(self, message: Message) -> None:
        """Raise InvalidMessage if the message violates a rule."""
        fail_fast = _count_items(message, "") > _MAX_SEARCHED_ITEMS
        if found := self._validator.collect_violations(message, fail_fast=fail_fast):
            raise InvalidMessage([_violation(each, message.DESCRIPTOR) for each in found[:_MAX_VIOLATIONS]])


@functools.cache
def _validator(types: frozenset[type[Message]]) -> protovalidate.Validator:
    """Return a validator that has compiled the rules of these types; every server of the process shares it."""
    validator = protovalidate.Validator()
    for each in types:
        validator.collect_violations(each())
    return validator


def _count_items(message: Message, path: str) -> int:
    """Return the number of items in all lists and maps. Raise InvalidMessage if one exceeds the limit of its field.

    protovalidate would check these limits too late: it evaluates the rules of a message, some of which compare all
    pairs of items, before those of its fields.
    """
    num_items = 0
    for field, value in message.ListFields():
        if field.is_repeated:
            num_items += len(value)
            limit = _limit(field)
            if limit is not None and len(value) > limit.value:
                text = f"must have at most {limit.value} items, not {len(value)}"
                raise InvalidMessage([Violation(f"{path}{field.name}", text, limit.rule)])
        if field.message_type is not None and _has_lists(field.message_type):
            if field.is_repeated:
                for i, item in enumerate(value):
                    num_items += _count_items(item, f"{path}{field.name}[{i}].")
            else:
                num_items += _count_items(value, f"{path}{field.name}.")
    return num_items


@dataclass(frozen=True, slots=True)
class _Limit:
    """The maximum number of items of a field, and the id of its rule."""

    value: int
    rule: str


@functools.cache
def _limit(field: FieldDescriptor) -> _Limit | None:
    """Return the limit that a list or map has in the contract, if any."""
    options: Any = field.GetOptions()
    rules = options.Extensions[validate_pb2.field]
    if rules.repeated.HasField("max_items"):
        return _Limit(rules.repeated.max_items, "repeated.max_items")
    if rules.map.HasField("max_pairs"):
        return _Limit(rules.map.max_pairs, "map.max_pairs")
    return None


@functools.cache
def _has_lists(message_type: Descriptor) -> bool:
    """Return whether messages of this type may contain lists or maps, also nested. No type is recursive."""
    return not message_type.GetOptions().map_entry and any(
        field.is_repeated or (field.message_type is not None and _has_lists(field.message_type))
        for field in message_type.fields
    )


def _violation(found: protovalidate.Violation, kind: Any) -> Violation:
    """Convert a violation found by protovalidate; `kind` is the descriptor of the message."""
    path, rule = _path(found), found.proto.rule_id
    if found.proto.rule is None and "." in rule:
        # A rule of a whole message: its id begins with the field that the client has to change.
        field = rule.partition(".")[0]
        path = f"{path}.{field}" if path else field
    return Violation(path, _message(found, kind), rule, _value_text(found.field_value))


def _message(found: protovalidate.Violation, kind: Any) -> str:
    """Return the text of a violation; patterns are replaced by descriptions, lists by the names of their values."""
    text, rule = found.proto.message, found.proto.rule_id
    if rule in _LISTS:
        *most, last = _names(found, kind)
        return " ".join([_LISTS[rule], *([", ".join(most), "or"] if most else []), last])
    if rule != "string.pattern":
        return text
    return next((description for pattern, description in PATTERNS.items() if f"`{pattern}`" in text), text)


def _names(found: protovalidate.Violation, kind: Any) -> list[str]:
    """Return the names of the values in the list of a rule, without the empty text, which is a missing one."""
    field = None
    for element in found.proto.field.elements if found.proto.field else ():
        field = kind.fields_by_name[element.field_name]
        kind = field.message_type
    enum = None if field is None else field.enum_type
    return [each if enum is None else enum.values_by_number[each].name for each in found.rule_value if each != ""]


def _path(found: protovalidate.Violation) -> str:
    """Return the path of the invalid field, such as `messages[0].content`; empty for the whole request."""
    path = ""
    for element in found.proto.field.elements if found.proto.field else ():
        path += f".{element.field_name}" if path else element.field_name
        if element.subscript is not None:
            key = element.subscript.value
            path += f'["{key}"]' if isinstance(key, str) else f"[{key}]"
    return path


def _value_text(value: object) -> str | None:
    """Return the text of an invalid value, truncated; None if it is neither a text nor a number."""
    if isinstance(value, float):
        return f"{value:.7g}"  # the precision of float32
    return str(value)[:_MAX_VALUE_CHARACTERS] if isinstance(value, str | int) else None
