"""Read one tool call written as a name and a JSON object of arguments, character by character."""

from __future__ import annotations

import enum
import re
from collections.abc import Collection

from service.output.calls.call_object import ObjectExtent
from service.output.calls.call_reader import WHITE_SPACE, Literal, Name, Verdict
from service.output.families.tool_syntax import NamedCall

_MAX_BETWEEN = 192  # characters between the name and the arguments


class _State(enum.Enum):
    BEFORE = enum.auto()
    NAME = enum.auto()
    BETWEEN = enum.auto()
    ARGUMENTS = enum.auto()


class NamedCallReader:
    """A `CallReader`. It is committed at the brace that opens the arguments, and done at the one that closes them.

    The parser of calls reads what the family writes after the arguments.
    """

    def __init__(self, syntax: NamedCall, names: Collection[str]) -> None:
        self.function: str | None = None
        self._syntax = syntax
        self._before = Literal(syntax.before)
        self._state = _State.NAME if self._before.is_complete else _State.BEFORE
        self._name = Name(names)
        self._between = ""
        self._extent = ObjectExtent()
        self._arguments = ""

    def take_arguments(self) -> str:
        """Return the part of the arguments that became known since the last call of this method."""
        arguments, self._arguments = self._arguments, ""
        return arguments

    def feed(self, character: str) -> Verdict:
        """Take the next character. No character may follow DONE or MALFORMED."""
        match self._state:
            case _State.BEFORE:
                is_read = self._before.feed(character)
                if self._before.is_complete:
                    self._state = _State.NAME
                return Verdict.MORE if is_read else Verdict.MALFORMED
            case _State.NAME if self._name.feed(character):
                return Verdict.MORE
            case _State.NAME if not self._name.is_known:
                return Verdict.MALFORMED
            case _State.ARGUMENTS:
                return self._feed_arguments(character)
            case _:
                self._state = _State.BETWEEN
                return self._feed_between(character)

    def _feed_between(self, character: str) -> Verdict:
        """Take a character between the function's name and its arguments."""
        if character != "{":
            self._between += character
            is_layout = not self._syntax.between.strip()  # only white space is allowed
            if len(self._between) > _MAX_BETWEEN or (is_layout and character not in WHITE_SPACE):
                return Verdict.MALFORMED
            return Verdict.MORE
        if not re.fullmatch(self._syntax.between_pattern, self._between):
            return Verdict.MALFORMED
        self.function = self._name.text
        self._state = _State.ARGUMENTS
        return self._feed_arguments(character)

    def _feed_arguments(self, character: str) -> Verdict:
        """Take a character of the arguments."""
        self._arguments += character
        return Verdict.DONE if self._extent.feed(character) else Verdict.MORE
