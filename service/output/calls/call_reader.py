"""The interface of readers of one tool call, character by character, and their shared parts."""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import Protocol

WHITE_SPACE = " \t\r\n"


class Verdict(enum.Enum):
    """The state of a call after a character."""

    MORE = enum.auto()
    DONE = enum.auto()
    MALFORMED = enum.auto()


class CallReader(Protocol):
    """Reads one call. It is committed once it is known to call one of the functions; until then it may be malformed.

    The rest of a committed call can still be malformed; the arguments that were taken until then remain valid events.
    """

    function: str | None
    """The called function's name once the call is committed; None until then."""

    def feed(self, character: str) -> Verdict:
        """Take the next character. No character may follow DONE or MALFORMED."""

    def take_arguments(self) -> str:
        """Return the part of the arguments that became known since the last call of this method."""


class Literal:
    """Reads a fixed text in any layout: white space is ignored."""

    def __init__(self, text: str) -> None:
        self._rest = "".join(text.split())

    @property
    def is_complete(self) -> bool:
        """True if the whole text was read."""
        return not self._rest

    def feed(self, character: str) -> bool:
        """Take a character; return True if it matches."""
        if character in WHITE_SPACE:
            return True
        if not self._rest.startswith(character):
            return False
        self._rest = self._rest[1:]
        return True


class Name:
    """Reads a function's name, the longest that matches."""

    def __init__(self, names: Collection[str]) -> None:
        self.text = ""
        self._names = names

    @property
    def is_known(self) -> bool:
        """True if the text read so far is the name of a function."""
        return self.text in self._names

    def feed(self, character: str) -> bool:
        """Take a character; return True if it continues a name, or is white space before it."""
        if not self.text and character in WHITE_SPACE:
            return True
        longer = self.text + character
        if not any(name.startswith(longer) for name in self._names):
            return False
        self.text = longer
        return True
