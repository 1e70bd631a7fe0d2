"""The input of a custom tool's call, read from the arguments of its function while they arrive.

The function has one parameter, the text `input`. Arguments of any other form, which an unconstrained model may
generate, are the input themselves.
"""

from __future__ import annotations

import re
from typing import Final

import orjson

INPUT: Final = "input"

_OPENING: Final = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_COMPACT_OPENING: Final = '{"input":"'
_PLAIN: Final = re.compile(r'[^"\\]+')
_HEX: Final = re.compile(r"[0-9a-fA-F]*")
_SHORT: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_UNPAIRED: Final = "\ufffd"  # replaces half of a surrogate pair


class CustomInput:
    """Reads the input from pieces of the arguments."""

    def __init__(self) -> None:
        self._pending = ""  # what more arguments are needed for
        self._is_open = False  # within the text
        self._is_closed = False
        self._is_raw = False  # the arguments are the input themselves

    def add(self, arguments: str) -> str:
        """Return the part of the input that is complete after these arguments."""
        if self._is_raw or self._is_closed:
            return arguments if self._is_raw else ""
        self._pending += arguments
        if not self._is_open and not self._open():
            return ""
        if self._is_raw:
            raw, self._pending = self._pending, ""
            return raw
        return self._read()

    def _open(self) -> bool:
        """Return whether the form of the arguments is known, after which the pending ones are of the input."""
        if opening := _OPENING.match(self._pending):
            self._is_open = True
            self._pending = self._pending[opening.end() :]
            return True
        compact = "".join(self._pending.split())
        self._is_raw = compact == _COMPACT_OPENING or not _COMPACT_OPENING.startswith(compact)
        return self._is_raw

    def _read(self) -> str:
        """Return the text of the pending arguments, up to an incomplete escape or the text's end."""
        text, position, pieces = self._pending, 0, list[str]()
        while position < len(text):
            if text[position] == '"':
                self._is_closed = True
                break
            if plain := _PLAIN.match(text, position):
                pieces.append(plain[0])
                position = plain.end()
                continue
            escaped = _escaped(text, position)
            if escaped is None:
                break
            pieces.append(escaped[0])
            position += escaped[1]
        self._pending = text[position:]
        return "".join(pieces)


def input_of(arguments: str) -> str:
    """Return the input of a call with these arguments, which may be cut off."""
    return CustomInput().add(arguments)


def arguments_of(text: str) -> str:
    """Return the arguments of a call with this input."""
    return orjson.dumps({INPUT: text}).decode()


def _escaped(text: str, begin: int) -> tuple[str, int] | None:
    """Return the text and the length of the escape at `begin`; None if it is incomplete."""
    kind = text[begin + 1 : begin + 2]
    if kind != "u":
        return (_SHORT.get(kind, "\\" + kind), 2) if kind else None
    high = _code(text, begin + 2)
    if not isinstance(high, int):
        return high
    if not 0xD800 <= high < 0xE000:
        return chr(high), 6
    following = text[begin + 6 : begin + 8]
    if high < 0xDC00 and "\\u".startswith(following):
        low = _code(text, begin + 8) if following == "\\u" else None
        if low is None:
            return None
        if isinstance(low, int) and 0xDC00 <= low < 0xE000:
            return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)), 12
    return _UNPAIRED, 6


def _code(text: str, begin: int) -> int | tuple[str, int] | None:
    """Return the number of four digits; None if they are incomplete, and the text of what is no escape."""
    digits = text[begin : begin + 4]
    found = _HEX.match(digits)
    if found is None or found.end() < len(digits):
        return "\\u", 2
    return int(digits, 16) if len(digits) == 4 else None
