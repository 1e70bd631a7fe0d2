"""Parse a JSON body strictly into a typed model.

The parser rejects NaN and Infinity, duplicate keys in an object, excessive nesting or numbers of values, and values of
other types than their field's; nothing is converted. Errors name the position (line and column, or the field's path)
and the rule.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.suggestion import suggested_field, suggested_value

T = TypeVar("T")

_MAX_VALUES: Final = 500_000  # more would block other requests for too long
_MAX_KEYS: Final = 100_000  # likewise; a key takes several times as long as a value
_KEY: Final = re.compile(rb'(?<!\\)"[ \t\r\n]*:')  # may also match inside a string that contains a quote and a colon

_OFFSET: Final = re.compile(r" \(byte (\d+)\)$")
_PATH: Final = re.compile(r" - at `(key` in `)?\$\.?([^`]*)`$")
_EXPECTED: Final = re.compile(r"^Expected `([^`]*)`, got `([^`]*)`$")
_NAMED: Final = re.compile(r"^Object (contains unknown|missing required) field `(.*)`$", re.DOTALL)
_LIMIT: Final = re.compile(r"^Expected `(int|float|str|array|object)`(?: of length)? (<=|>=|<|>) (.+)$")
_INVALID: Final = re.compile(r"^Invalid (?:enum )?value (.*)$", re.DOTALL)
_TEXTS_OF_DECODER: Final = {"unexpected end of hex escape": "incomplete \\u escape, or unpaired surrogate"}
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
    """Return the body as the decoder's type. Raise Failure (400) that names the position and the rule."""
    # The count includes commas and brackets in strings: the count is cheap, and no prompt has that many.
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
        raise _invalid_type(str(error), decoder.type) from None
    except msgspec.DecodeError as error:
        raise _unreadable(body, str(error)) from None
    except RecursionError:
        raise Failure(Reason.MALFORMED_JSON, "the body is nested too deeply") from None
    return value


def decode_within(value: bytes, decoder: msgspec.json.Decoder[T], path: str) -> T:
    """Return a list within a body as the decoder's type. Raise Failure naming a field below its `path`."""
    try:
        return decoder.decode(value)
    except msgspec.ValidationError as error:
        inner = _invalid_type(str(error), decoder.type)
        raise Failure.of_field(f"{path}{inner.field or ''}", inner.violations[0].text, inner.reason) from None


def is_given(raw: msgspec.Raw) -> bool:
    """Return True if a field that is only checked for presence is given and not null."""
    return bytes(raw) not in {b"", b"null"}


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> None:
    """Raise Failure for a duplicate key. Nothing is stored, so that a large body is in memory only once."""
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise Failure(Reason.MALFORMED_JSON, f"duplicate key {name[:256]!r} in an object")
        seen.add(name)


def _malformed(body: bytes, offset: int, text: str) -> Failure:
    """Return the failure for JSON that is malformed at a byte."""
    before = body[:offset]
    line = before.count(b"\n") + 1
    column = len(before[before.rfind(b"\n") + 1 :].decode(errors="replace")) + 1
    return Failure(Reason.MALFORMED_JSON, f"malformed JSON at line {line}, column {column}: {text}")


def _unreadable(body: bytes, text: str) -> Failure:
    """Return the failure for the decoder's error `text`, with line and column."""
    offset = _OFFSET.search(text)
    if offset is None:  # the decoder's only error without an offset; it also means an unpaired surrogate
        return _malformed(body, len(body), "unexpected end of the text, or a \\u escape with an unpaired surrogate")
    claim = _OFFSET.sub("", text).removeprefix("JSON is malformed: ")
    return _malformed(body, int(offset[1]), _TEXTS_OF_DECODER.get(claim, claim))


def _invalid_type(text: str, kind: Any) -> Failure:
    """Convert a decoder's type error to a Failure with JSON's type names; `kind` is the type of the body."""
    location = _PATH.search(text)
    path = re.sub(r"\[(\d+)\]", r".\1", location[2]).replace("[...]", "") if location else ""
    claim = _PATH.sub("", text)
    if named := _NAMED.match(claim):
        field = f"{path}.{named[2][:256]}" if path else named[2][:256]
        if named[1] == "contains unknown":
            return Failure.of_field(field, f"unknown field{suggested_field(kind, field)}", Reason.UNKNOWN_FIELD)
        return Failure.of_field(field, "required, but missing", Reason.MISSING_FIELD)
    reason, rule = _rule(claim)
    if (invalid := _INVALID.match(claim)) and path:
        rule += suggested_value(kind, path, invalid[1][:256].strip("'"))
    if location is not None and location[1]:
        rule = f"each key {rule}"
    return Failure.of_field(path, rule, reason) if path else Failure(reason, f"the body {rule}")


def _rule(claim: str) -> tuple[Reason, str]:
    """Return the reason and the violated rule of a decoder's error without its path."""
    if expected := _EXPECTED.match(claim):
        types = " or ".join(_TYPE_NAMES.get(name, name) for name in expected[1].split(" | ") if name != "null")
        return Reason.INVALID_TYPE, f"must be {types}, not {_TYPE_NAMES.get(expected[2], expected[2])}"
    if limit := _LIMIT.match(claim):
        verb = "have" if limit[1] in _UNITS else "be"
        return (
            Reason.INVALID_FIELD,
            f"must {verb} {_RELATIONS[limit[2]]} {limit[3].removesuffix('.0')}{_UNITS.get(limit[1], '')}",
        )
    if invalid := _INVALID.match(claim):
        return Reason.INVALID_FIELD, f"{invalid[1][:256]} is not supported"
    return Reason.INVALID_FIELD, claim[:1].lower() + claim[1:]
