"""Convert literals that models write in other syntaxes to JSON text. Raises ValueError for anything else."""

from __future__ import annotations

import ast
import json
import re
import warnings
from typing import Any

_JSON_NAMES = {"true": True, "false": False, "null": None}
_BARE = re.compile(r"[^\[\]{},]+")


def python_value(text: str) -> str:
    """Of a Python literal, in which `true`, `false` and `null` stand for themselves as well."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unknown escape in a string is what it is
            tree = ast.parse(text.strip(), mode="eval")
        return _json(_evaluated(tree.body))
    except (SyntaxError, RecursionError, MemoryError, TypeError) as error:
        raise ValueError(text) from error


def braced_value(text: str, quote: str) -> str:
    """Of a value with bare keys whose strings stand between `quote`."""
    try:
        value, end = _read(text, _skip(text, 0), quote)
    except (RecursionError, IndexError) as error:
        raise ValueError(text) from error
    if _skip(text, end) != len(text):
        raise ValueError(text)
    return _json(value)


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16")  # two escapes may make up one character


def _evaluated(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value) if value is None or isinstance(value, str | bool | int | float):
            return value
        case ast.Name(name) if name in _JSON_NAMES:
            return _JSON_NAMES[name]
        case ast.List(items) | ast.Tuple(items) | ast.Set(items):
            return [_evaluated(item) for item in items]
        case ast.Dict(keys, values):
            pairs = [
                (_evaluated(key) if key else None, _evaluated(value)) for key, value in zip(keys, values, strict=True)
            ]
            if not all(isinstance(key, str) for key, _ in pairs):
                raise ValueError("a key that is no string")
            return dict(pairs)
        case ast.UnaryOp(ast.USub(), operand):
            value = _evaluated(operand)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return -value
    raise ValueError("no literal")


def _read(text: str, place: int, quote: str) -> tuple[Any, int]:
    """The value that begins at `place`, and where it ends."""
    if text.startswith(quote, place):
        end = text.index(quote, place + len(quote))
        return text[place + len(quote) : end], end + len(quote)
    if text[place] == "[":
        return _read_list(text, place + 1, quote)
    if text[place] == "{":
        return _read_object(text, place + 1, quote)
    if text[place] == '"':
        value, end = json.JSONDecoder().raw_decode(text, place)
        return value, end
    found = _BARE.match(text, place)
    if found is None:
        raise ValueError(text)
    written = found[0].strip()
    try:
        return json.loads(written), found.end()
    except ValueError:
        return written, found.end()


def _read_list(text: str, place: int, quote: str) -> tuple[list[Any], int]:
    items: list[Any] = []
    place = _skip(text, place)
    while text[place] != "]":
        item, place = _read(text, place, quote)
        items.append(item)
        place = _skip_separator(text, place, "]")
    return items, place + 1


def _read_object(text: str, place: int, quote: str) -> tuple[dict[str, Any], int]:
    members: dict[str, Any] = {}
    place = _skip(text, place)
    while text[place] != "}":
        if text.startswith(quote, place):
            key, colon = _read(text, place, quote)
            colon = _skip(text, colon)
        else:
            colon = text.index(":", place)
            key = text[place:colon].strip().strip('"')
        if text[colon] != ":":
            raise ValueError(text)
        members[key], place = _read(text, _skip(text, colon + 1), quote)
        place = _skip_separator(text, place, "}")
    return members, place + 1


def _skip(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _skip_separator(text: str, place: int, close: str) -> int:
    place = _skip(text, place)
    if text[place] == ",":
        return _skip(text, place + 1)
    if text[place] != close:
        raise ValueError(text)
    return place
