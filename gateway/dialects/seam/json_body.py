"""Reads a JSON body into a typed model, strictly.

It is stricter than JSON asks: no NaN and Infinity, no duplicate keys in an object, no unlimited nesting or number of
values, and a value is of its field's type or refused; nothing is converted. Errors name the place (line and column, or
the field's path) and the rule.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from gateway.dialects.seam.failure import Failure, Reason

T = TypeVar("T")

_MAX_VALUES: Final = 500_000  # what can be parsed without keeping other requests waiting for long
_MAX_KEYS: Final = 100_000  # the same; a key takes several times as long as another value
_KEY: Final = re.compile(rb'(?<!\\)"[ \t\r\n]*:')  # or the end of a string of a text that has a colon after it

_OFFSET: Final = re.compile(r" \(byte (\d+)\)$")
_PATH: Final = re.compile(r" - at `(key` in `)?\$\.?([^`]*)`$")
_EXPECTED: Final = re.compile(r"^Expected `([^`]*)`, got `([^`]*)`$")
_NAMED: Final = re.compile(r"^Object (contains unknown|missing required) field `(.*)`$", re.DOTALL)
_LIMIT: Final = re.compile(r"^Expected `(int|float|str|array|object)`(?: of length)? (<=|>=|<|>) (.+)$")
_INVALID: Final = re.compile(r"^Invalid (?:enum )?value (.*)$", re.DOTALL)
_CLEARER_TEXTS: Final = {"unexpected end of hex escape": "incomplete \\u escape, or unpaired surrogate"}
_TYPE_NAMES: Final = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "a boolean",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
_RELATIONS: Final = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}
_UNITS: Final = {"str": " characters", "array": " items", "object": " entries"}


def decode(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The body as the decoder's type. Raises Failure (400) that names the place and the rule."""
    # The count includes commas and brackets in strings: it is cheap, and no prompt has that many.
    if len(body) > _MAX_VALUES and body.count(b",") + body.count(b"[") + body.count(b"{") > _MAX_VALUES:
        raise Failure(Reason.MALFORMED_JSON, f"the body has more than {_MAX_VALUES} values")
    if body.count(b":") > _MAX_KEYS and sum(1 for _ in islice(_KEY.finditer(body), _MAX_KEYS + 1)) > _MAX_KEYS:
        raise Failure(Reason.MALFORMED_JSON, f"the body has more than {_MAX_KEYS} keys")
    try:
        text = body.decode()
        value = decoder.decode(body)
        json.loads(text, object_pairs_hook=_reject_duplicates, parse_int=str, parse_float=str)
    except UnicodeDecodeError as error:
        raise _malformed(body, error.start, "the body is not valid UTF-8") from None
    except msgspec.ValidationError as error:
        raise _ill_typed(str(error)) from None
    except msgspec.DecodeError as error:
        raise _unreadable(body, str(error)) from None
    except RecursionError:
        raise Failure(Reason.MALFORMED_JSON, "the body is nested too deeply") from None
    return value


def is_given(raw: msgspec.Raw) -> bool:
    """Whether a field that is only looked at, not read, is there and not null."""
    return bytes(raw) not in {b"", b"null"}


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> None:
    """Called for each object of the body; keeps nothing of it, so that a large body is held only once."""
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise Failure(Reason.MALFORMED_JSON, f"duplicate key {name[:256]!r} in an object")
        seen.add(name)


def _malformed(body: bytes, offset: int, text: str) -> Failure:
    before = body[:offset]
    line = before.count(b"\n") + 1
    column = len(before[before.rfind(b"\n") + 1 :].decode(errors="replace")) + 1
    return Failure(Reason.MALFORMED_JSON, f"malformed JSON at line {line}, column {column}: {text}")


def _unreadable(body: bytes, text: str) -> Failure:
    offset = _OFFSET.search(text)
    if offset is None:  # the decoder's one error without a place; it also means "\ud800" without its other half
        return _malformed(body, len(body), "unexpected end of the text, or a \\u escape with an unpaired surrogate")
    claim = _OFFSET.sub("", text).removeprefix("JSON is malformed: ")
    return _malformed(body, int(offset[1]), _CLEARER_TEXTS.get(claim, claim))


def _ill_typed(text: str) -> Failure:
    """Words a decoder's complaint for callers, who know JSON's type names and not Python's."""
    place = _PATH.search(text)
    path = re.sub(r"\[(\d+)\]", r".\1", place[2]).replace("[...]", "") if place else ""
    claim = _PATH.sub("", text)
    if named := _NAMED.match(claim):
        field = f"{path}.{named[2][:256]}" if path else named[2][:256]
        if named[1] == "contains unknown":
            return Failure.of_field(field, "unknown field", Reason.UNKNOWN_FIELD)
        return Failure.of_field(field, "required, but missing", Reason.MISSING_FIELD)
    reason, rule = _rule(claim)
    if place is not None and place[1]:
        rule = f"each key {rule}"
    return Failure.of_field(path, rule, reason) if path else Failure(reason, f"the body {rule}")


def _rule(claim: str) -> tuple[Reason, str]:
    """What a decoder complains of, without the place."""
    if expected := _EXPECTED.match(claim):
        wanted = " or ".join(_TYPE_NAMES.get(name, name) for name in expected[1].split(" | ") if name != "null")
        return Reason.INVALID_TYPE, f"must be {wanted}, not {_TYPE_NAMES.get(expected[2], expected[2])}"
    if limit := _LIMIT.match(claim):
        verb = "have" if limit[1] in _UNITS else "be"
        return (
            Reason.INVALID_FIELD,
            f"must {verb} {_RELATIONS[limit[2]]} {limit[3].removesuffix('.0')}{_UNITS.get(limit[1], '')}",
        )
    if invalid := _INVALID.match(claim):
        return Reason.INVALID_FIELD, f"{invalid[1][:256]} is not supported"
    return Reason.INVALID_FIELD, claim[:1].lower() + claim[1:]
