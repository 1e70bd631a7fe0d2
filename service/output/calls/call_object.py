"""Read one tool call written as a JSON object, character by character.

There are two state machines: one for `{"name": …, "arguments": {…}}`, and one that finds the end of any JSON object.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Collection

from service.output.calls.call_reader import WHITE_SPACE, Verdict

_NAME_KEYS = frozenset({"name", "tool_name"})
_ARGUMENTS_KEYS = frozenset({"arguments", "parameters"})
_IGNORED_KEYS = frozenset({"id", "type", "tool_call_id"})


class ObjectExtent:
    """Finds the end of a JSON object by its brackets, from its `{` on."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, character: str) -> bool:
        """Take a character; return True if the object ends with it."""
        if self._in_string:
            if self._escaped:
                self._escaped = False
            elif character == "\\":
                self._escaped = True
            elif character == '"':
                self._in_string = False
        elif character == '"':
            self._in_string = True
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1
        return self._depth == 0


class _State(enum.Enum):
    BEFORE_OBJECT = enum.auto()
    BEFORE_FIRST_KEY = enum.auto()
    BEFORE_KEY = enum.auto()
    KEY = enum.auto()
    BEFORE_COLON = enum.auto()
    BEFORE_VALUE = enum.auto()
    STRING = enum.auto()
    ARGUMENTS = enum.auto()
    AFTER_VALUE = enum.auto()


_FOLLOWING = {
    (_State.BEFORE_OBJECT, "{"): _State.BEFORE_FIRST_KEY,
    (_State.BEFORE_FIRST_KEY, '"'): _State.KEY,
    (_State.BEFORE_KEY, '"'): _State.KEY,
    (_State.BEFORE_COLON, ":"): _State.BEFORE_VALUE,
    (_State.AFTER_VALUE, ","): _State.BEFORE_KEY,
}


class CallObject:
    """A `CallReader`. It is committed once its name and the first character of its arguments are known.

    Members are `name` or `tool_name` (one of `names`), `arguments` or `parameters` (an object, or a string with one; no
    arguments if absent), and ids and `type`, which are ignored. A `keyed` call has its name as the only key, and the
    arguments as its value. Anything else is malformed. Text after a committed call's arguments can still be malformed.
    """

    def __init__(self, names: Collection[str], *, keyed: bool = False) -> None:
        self.function: str | None = None
        self._names = names
        self._keyed = keyed
        self._state = _State.BEFORE_OBJECT
        self._string: list[str] = []  # the JSON text of the current string, including quotes
        self._escaped = False
        self._key = ""
        self._keys: set[str] = set()
        self._name: str | None = None
        self._extent = ObjectExtent()
        self._early_arguments: list[str] = []  # arguments that precede the name
        self._arguments = ""

    def take_arguments(self) -> str:
        """Return the part of the arguments that became known since the last call of this method."""
        arguments, self._arguments = self._arguments, ""
        return arguments

    def feed(self, character: str) -> Verdict:
        """Take the next character. No character may follow DONE or MALFORMED."""
        match self._state:
            case _State.ARGUMENTS:
                return self._feed_arguments(character)
            case _State.KEY | _State.STRING:
                return self._feed_string(character)
            case _ if character in WHITE_SPACE:
                return Verdict.MORE
            case _State.BEFORE_VALUE:
                return self._begin_value(character)
            case _State.BEFORE_FIRST_KEY | _State.AFTER_VALUE if character == "}":
                return self._finish()
            case state:
                return self._follow(state, character)

    def _follow(self, state: _State, character: str) -> Verdict:
        """Take a character that separates keys and values."""
        following = _FOLLOWING.get((state, character))
        if following is None:
            return Verdict.MALFORMED
        self._state = following
        self._string = ['"']
        return Verdict.MORE

    def _begin_value(self, character: str) -> Verdict:
        """Take the first character of a value."""
        if character == '"':
            self._state, self._string = _State.STRING, ['"']
            return Verdict.MORE
        if character == "{" and self._key == "arguments":
            self._state = _State.ARGUMENTS
            self._commit()
            return self._feed_arguments(character)
        return Verdict.MALFORMED

    def _feed_arguments(self, character: str) -> Verdict:
        """Take a character of the arguments; hold it until the function is known."""
        if self.function is not None:
            self._arguments += character
        else:
            self._early_arguments.append(character)
        if self._extent.feed(character):
            self._state = _State.AFTER_VALUE
        return Verdict.MORE

    def _feed_string(self, character: str) -> Verdict:
        """Take a character of a key or of a string."""
        self._string.append(character)
        if self._escaped or character != '"':
            self._escaped = not self._escaped and character == "\\"
            return Verdict.MORE
        try:
            text = json.loads("".join(self._string), strict=False)
        except ValueError:
            return Verdict.MALFORMED
        return self._finish_key(text) if self._state is _State.KEY else self._finish_string(text)

    def _finish_key(self, key: str) -> Verdict:
        """End a key. Return MALFORMED if a call can't have it."""
        if self._keyed:
            if self._keys or key not in self._names:
                return Verdict.MALFORMED
            self._name, kind = key, "arguments"
        elif key in _NAME_KEYS:
            kind = "name"
        else:
            kind = "arguments" if key in _ARGUMENTS_KEYS else key
        if kind in self._keys or kind not in {"name", "arguments", *_IGNORED_KEYS}:
            return Verdict.MALFORMED
        self._keys.add(kind)
        self._key = kind
        self._state = _State.BEFORE_COLON
        return Verdict.MORE

    def _finish_string(self, text: str) -> Verdict:
        """End a string value. Return MALFORMED if it should name a function and doesn't."""
        self._state = _State.AFTER_VALUE
        if self._key == "name":
            if text not in self._names:
                return Verdict.MALFORMED
            self._name = text
            if self._early_arguments:
                self._commit()
                self._arguments += "".join(self._early_arguments)
        elif self._key == "arguments":
            if not _is_object(text):
                return Verdict.MALFORMED
            self._commit()
            if self.function is not None:
                self._arguments += text
            else:
                self._early_arguments = [text]
        return Verdict.MORE

    def _commit(self) -> None:
        """Make the function known; the call can no longer become text."""
        self.function = self._name

    def _finish(self) -> Verdict:
        """End the call, which has no arguments if none were given."""
        if self.function is None:
            if self._name is None:
                return Verdict.MALFORMED
            self._commit()
            self._arguments += "{}"
        return Verdict.DONE


def _is_object(text: str) -> bool:
    """Return whether a text is a JSON object of Unicode; one with half of a surrogate pair can't be sent."""
    try:
        text.encode()
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
