"""Read one tool call written as a name and keyword arguments, character by character, as JSON.

Python's syntax, `f(city="Oslo")`, and the braced one, `call:f{city:<escape>Oslo<escape>}`, differ in their delimiters
and values; `literal` parses the values.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Collection

from service.output.calls.call_reader import WHITE_SPACE, Literal, Name, Verdict
from service.output.calls.literal import braced_value, python_value
from service.output.families.tool_syntax import BracedCall, PythonicCall

_MAX_KEY = 256  # characters
_MAX_DEPTH = 64  # of brackets in a value


class _State(enum.Enum):
    BEFORE = enum.auto()
    NAME = enum.auto()
    AFTER_NAME = enum.auto()
    FIRST_KEY = enum.auto()
    KEY = enum.auto()
    VALUE = enum.auto()


class KeywordCallReader:
    """A `CallReader`. It is committed at the end of its first value, or of a call without values.

    A value is returned when it is complete. Values that are not literals or have no key are malformed.
    """

    def __init__(self, syntax: PythonicCall | BracedCall, names: Collection[str]) -> None:
        self.function: str | None = None
        self._is_python = isinstance(syntax, PythonicCall)
        self._open, self._close, self._equals = "()=" if self._is_python else "{}:"
        self._quotes = ("'", '"') if isinstance(syntax, PythonicCall) else (syntax.quote,)
        self._before = Literal("" if isinstance(syntax, PythonicCall) else syntax.before)
        self._state = _State.NAME if self._before.is_complete else _State.BEFORE
        self._name = Name(names)
        self._text = ""  # of the current key
        self._value: list[str] = []  # the characters of the current value
        self._tail = ""  # the end of the value, as long as the longest quote
        self._quote = ""  # what ends the current string
        self._quote_end = 0  # of its opening quote, in `_value`
        self._escaped = False
        self._depth = 0
        self._key = ""
        self._keys: set[str] = set()
        self._arguments = ""

    def take_arguments(self) -> str:
        """Return the part of the arguments that became known since the last call of this method."""
        arguments, self._arguments = self._arguments, ""
        return arguments

    def feed(self, character: str) -> Verdict:
        """Take the next character. No character may follow DONE or MALFORMED."""
        match self._state:
            case _State.VALUE:
                return self._feed_value(character)
            case _State.FIRST_KEY | _State.KEY:
                return self._feed_key(character)
            case _State.BEFORE:
                if not self._before.feed(character):
                    return Verdict.MALFORMED
                if self._before.is_complete:
                    self._state = _State.NAME
                return Verdict.MORE
            case _State.NAME if self._name.feed(character):
                return Verdict.MORE
            case _:
                return self._feed_after_name(character)

    def _feed_after_name(self, character: str) -> Verdict:
        """Take a character between the function's name and its arguments."""
        if not self._name.is_known:
            return Verdict.MALFORMED
        self._state = _State.AFTER_NAME
        if character == self._open:
            self._state = _State.FIRST_KEY
        elif character not in WHITE_SPACE:
            return Verdict.MALFORMED
        return Verdict.MORE

    def _feed_key(self, character: str) -> Verdict:
        """Take a character of a key, or of the end of the arguments."""
        if character == self._close and not self._text.strip():  # also after a trailing comma
            return self._finish()
        if character != self._equals:
            self._text += character
            return Verdict.MORE if len(self._text) <= _MAX_KEY else Verdict.MALFORMED
        self._key, self._text = self._text.strip(), ""
        is_name = self._key.isidentifier() if self._is_python else bool(self._key) and "{" not in self._key
        if not is_name:
            return Verdict.MALFORMED
        self._state = _State.VALUE
        return Verdict.MORE

    def _feed_value(self, character: str) -> Verdict:
        """Take a character of a value, which ends at a comma or bracket outside of quotes and brackets."""
        if self._quote:
            self._add(character)
            self._feed_quoted(character)
            return Verdict.MORE
        if self._depth == 0 and character in (",", self._close):
            return self._end_value(character)
        self._add(character)
        if character in "([{":
            self._depth += 1
        elif character in ")]}":
            self._depth -= 1
        else:
            self._quote = next((quote for quote in self._quotes if self._tail.endswith(quote)), "")
            self._quote_end = len(self._value)
        return Verdict.MORE if 0 <= self._depth <= _MAX_DEPTH else Verdict.MALFORMED

    def _add(self, character: str) -> None:
        """Add a character to the value."""
        self._value.append(character)
        self._tail = (self._tail + character)[-max(map(len, self._quotes)) :]

    def _feed_quoted(self, character: str) -> None:
        """End the quotes if the character closes them."""
        if self._is_python and (self._escaped or character == "\\"):
            self._escaped = not self._escaped
        elif len(self._value) - self._quote_end >= len(self._quote) and self._tail.endswith(self._quote):
            self._quote = ""

    def _end_value(self, character: str) -> Verdict:
        """End a value and add it to the arguments as JSON. Return MALFORMED if it is invalid."""
        try:
            text = "".join(self._value)
            value = python_value(text) if self._is_python else braced_value(text, self._quotes[0])
        except ValueError:
            return Verdict.MALFORMED
        opening = ", " if self._keys else "{"
        self._commit()
        self._keys.add(self._key)
        self._arguments += f"{opening}{json.dumps(self._key, ensure_ascii=False)}: {value}"
        self._value, self._tail, self._state = [], "", _State.KEY
        return self._finish() if character == self._close else Verdict.MORE

    def _finish(self) -> Verdict:
        """End the call."""
        self._commit()
        self._arguments += "}" if self._keys else "{}"
        return Verdict.DONE

    def _commit(self) -> None:
        """Make the function known; the call can no longer become text."""
        self.function = self._name.text
