"""JSON that clients send as text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from service.generation.errors import InvalidRequest

_MAX_DEPTH = 100
_TOO_DEEP = f"nested more than {_MAX_DEPTH} levels deep"
_NO_PARAMETERS = {"type": "object", "properties": {}}
_MAX_SHOWN = 64  # characters of an invalid value in an error
_MAX_DIGITS = 32  # of an integer, because Python's parser takes quadratic time
_INTEGERS = range(-(2**63), 2**64)  # the schema compiler rounds others
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # half of a character unless two of them form a pair


def parse_json(text: str, field: str) -> Any:
    """Return the value of a JSON text. Raise InvalidRequest for `field`, with the line and column or the reason.

    It is stricter than Python: no NaN or Infinity, no number that overflows to infinity, no integer of more than 64
    bits, no duplicate keys, no unpaired surrogate.
    """
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_reject_constant,
            parse_int=_integer,
            parse_float=_number,
        )
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}"
        raise InvalidRequest(field, f"not valid JSON: {error.msg} in {position}") from error
    except UnicodeEncodeError as error:
        raise InvalidRequest(field, r"not valid JSON: a \u escape with an unpaired surrogate") from error
    except ValueError as error:
        raise InvalidRequest(field, f"not valid JSON: {error}") from error
    except RecursionError as error:
        raise InvalidRequest(field, _TOO_DEEP) from error
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [inner for outer in level for inner in _children(outer)]
    if level:
        raise InvalidRequest(field, _TOO_DEEP)
    return value


def parse_parameters(text: str, field: str) -> dict[str, Any]:
    """Return a function's schema, without parameters if `text` is empty. Raise InvalidRequest for `field`."""
    if not text:
        return dict(_NO_PARAMETERS)
    schema = parse_json(text, field)
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise InvalidRequest(field, "the parameters must be a JSON Schema of type object")
    return schema


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's members. Raise ValueError for a duplicate key."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"duplicate key {name[:_MAX_SHOWN]!a} in an object")
        found[name] = value
    return found


def _integer(digits: str) -> int:
    """Return an integer. Raise ValueError if it is out of protobuf's range."""
    if len(digits) > _MAX_DIGITS or int(digits) not in _INTEGERS:
        raise ValueError(f"the integer {_shown(digits)} is out of range; it must be from -2^63 to 2^64 - 1")
    return int(digits)


def _number(digits: str) -> float:
    """Return a float. Raise ValueError if it is infinite."""
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {_shown(digits)} is out of range; its size must be below 1.8e308")
    return number


def _shown(digits: str) -> str:
    return digits if len(digits) <= _MAX_SHOWN else f"{digits[:_MAX_SHOWN]}…"


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON value")
