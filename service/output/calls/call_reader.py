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
    """Reads one of several fixed texts, none of which is a prefix of another; white space is ignored."""

    def __init__(self, *texts: str) -> None:
        self._rests = ["".join(text.split()) for text in texts]

    @property
    def is_complete(self) -> bool:
        """True if a whole text was read."""
        return "" in self._rests

    def feed(self, character: str) -> bool:
        """Take a character; return True if it matches."""
        if character in WHITE_SPACE:
            return True
        self._rests = [rest[1:] for rest in self._rests if rest.startswith(character)]
        return bool(self._rests)


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
