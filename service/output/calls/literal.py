"""Convert literals that models write in other syntaxes to JSON text. All functions raise ValueError for other text."""

from __future__ import annotations

import ast
import json
import re
import warnings
from typing import Any

_JSON_NAMES = {"true": True, "false": False, "null": None}
_BARE = re.compile(r"[^\[\]{},]+")


def python_value(text: str) -> str:
    """Return the JSON of a Python literal, in which JSON's `true`, `false` and `null` are allowed, too."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about unknown escapes in strings, which are kept
            tree = ast.parse(text.strip(), mode="eval")
        return _json(_evaluated(tree.body))
    except (SyntaxError, RecursionError, MemoryError, TypeError) as error:
        raise ValueError(text) from error


def braced_value(text: str, quote: str) -> str:
    """Return the JSON of a value with bare keys, whose strings are enclosed in `quote`."""
    try:
        value, end = _read(text, _skip(text, 0), quote)
    except (RecursionError, IndexError) as error:
        raise ValueError(text) from error
    if _skip(text, end) != len(text):
        raise ValueError(text)
    return _json(value)


def _json(value: Any) -> str:
    """Return a value as JSON text."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16")  # two escapes may be a surrogate pair


def _evaluated(node: ast.expr) -> Any:
    """Return the value of a literal expression. Raise ValueError for any other expression."""
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
                raise ValueError("a key that is not a string")
            return dict(pairs)
        case ast.UnaryOp(ast.USub(), operand):
            value = _evaluated(operand)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return -value
    raise ValueError("not a literal")


def _read(text: str, position: int, quote: str) -> tuple[Any, int]:
    """Return the value that begins at `position`, and its end."""
    if text.startswith(quote, position):
        end = text.index(quote, position + len(quote))
        return text[position + len(quote) : end], end + len(quote)
    if text[position] == "[":
        return _read_list(text, position + 1, quote)
    if text[position] == "{":
        return _read_object(text, position + 1, quote)
    if text[position] == '"':
        value, end = json.JSONDecoder().raw_decode(text, position)
        return value, end
    found = _BARE.match(text, position)
    if found is None:
        raise ValueError(text)
    written = found[0].strip()
    try:
        return json.loads("null" if written == "None" else written), found.end()
    except ValueError:
        return written, found.end()


def _read_list(text: str, position: int, quote: str) -> tuple[list[Any], int]:
    """Return a list and the position after it. Raise ValueError."""
    items: list[Any] = []
    position = _skip(text, position)
    while text[position] != "]":
        item, position = _read(text, position, quote)
        items.append(item)
        position = _skip_separator(text, position, "]")
    return items, position + 1


def _read_object(text: str, position: int, quote: str) -> tuple[dict[str, Any], int]:
    """Return an object and the position after it. Raise ValueError."""
    members: dict[str, Any] = {}
    position = _skip(text, position)
    while text[position] != "}":
        if text.startswith(quote, position):
            key, colon = _read(text, position, quote)
            colon = _skip(text, colon)
        else:
            colon = text.index(":", position)
            key = text[position:colon].strip().strip('"')
        if text[colon] != ":":
            raise ValueError(text)
        members[key], position = _read(text, _skip(text, colon + 1), quote)
        position = _skip_separator(text, position, "}")
    return members, position + 1


def _skip(text: str, position: int) -> int:
    """Return the position after white space."""
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _skip_separator(text: str, position: int, close: str) -> int:
    """Return the position after a comma, or that of `close`. Raise ValueError for another character."""
    position = _skip(text, position)
    if text[position] == ",":
        return _skip(text, position + 1)
    if text[position] != close:
        raise ValueError(text)
    return position
