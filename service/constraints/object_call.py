"""The body of the grammar rule of a call that is a JSON object."""

from __future__ import annotations

from typing import Final

from service.constraints.lark import SPACE, quote
from service.output.families.tool_syntax import ObjectCall

DEEP_INDENT: Final = 64  # spaces before the members of an indented call's arguments
_NUMBER: Final = "/[0-9]{1,3}/"
_ID: Final = "/[A-Za-z0-9]{1,64}/"


def object_call(call: ObjectCall, name: str, arguments: str) -> str:
    """Return the body of the rule of a call of the function `name`; `arguments` is the rule of its arguments."""
    if call.keyed:
        return f'{quote(f"{{{quote(name)}: ")} {arguments} "}}"'
    named, given = f"{quote(call.name_key)}: {quote(name)},", f"{quote(call.arguments_key)}: "
    if not call.is_indented:
        call_id = f"({_member(f', {quote(call.id_key)}', _ID)})?" if call.id_key else ""
        return f'{quote(f"{{{named} {given}")} {arguments} {call_id} "}}"'
    number = f'{_member(quote(call.number_key), _NUMBER)} "," {SPACE}' if call.number_key else ""
    return f'"{{" {SPACE} {number} {quote(named)} {SPACE} {quote(given)} {arguments} {SPACE} "}}"'


def _member(key: str, terminal: str) -> str:
    """Return the body of a member with a string that the terminal matches."""
    return f'{quote(key + ": ")} "\\"" {terminal} "\\""'
