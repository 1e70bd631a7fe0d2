"""The contract's own rules, checked once for every caller.

Owns protovalidate and the reading of its violations. Only the loop's thread runs it. It knows no rule itself: they are
in the .proto files.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import protovalidate
from google.protobuf.message import Message

from service.errors import InvalidMessage, Violation
from service.interceptors.policy import Behaviour, Context, Policy

_MAX_VIOLATIONS = 8  # they travel in trailers, whose size is limited
_MAX_VALUE_CHARACTERS = 256


class Validation(Policy):
    """Raises InvalidMessage for a request that breaks a rule; a stream of requests is its servicer's to check."""

    def __init__(self, request_types: Iterable[type[Message]]) -> None:
        """The rules of `request_types` are compiled now, not by the first caller."""
        self._validator = protovalidate.Validator()
        for request_type in request_types:
            self._validator.collect_violations(request_type())

    async def apply(self, method: str, request: Any, context: Context, proceed: Behaviour) -> Any:  # noqa: ARG002  all alike
        if isinstance(request, Message) and (found := self._validator.collect_violations(request)):
            raise InvalidMessage([_violation(each) for each in found[:_MAX_VIOLATIONS]])
        return await proceed(request, context)


def _violation(found: protovalidate.Violation) -> Violation:
    path, rule = _path(found), found.proto.rule_id
    if found.proto.rule is None and "." in rule:
        # A rule over a whole message: its id begins with the field that the caller has to change.
        field = rule.partition(".")[0]
        path = f"{path}.{field}" if path else field
    return Violation(path, found.proto.message, rule, _text(found.field_value))


def _path(found: protovalidate.Violation) -> str:
    path = ""
    for element in found.proto.field.elements if found.proto.field else ():
        path += f".{element.field_name}" if path else element.field_name
        if element.subscript is not None:
            key = element.subscript.value
            path += f'["{key}"]' if isinstance(key, str) else f"[{key}]"
    return path


def _text(value: object) -> str | None:
    if isinstance(value, float):
        return f"{value:.7g}"  # as many digits as the contract's floats have
    return str(value)[:_MAX_VALUE_CHARACTERS] if isinstance(value, str | int) else None
