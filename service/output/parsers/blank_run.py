"""A run of white space that a parser holds back until it is known what follows."""

from __future__ import annotations

BLANKS = " \t\r\n"


class BlankRun:
    """Collects white space that follows held white space.

    The parser receives it together with the next text that is not white space. Its time is thus linear in the length of
    the run, however many tokens the run has.
    """

    def __init__(self) -> None:
        self.length = 0
        self._parts: list[str] = []
        self._is_open = False

    def begin(self, held: str) -> None:
        """Collect what follows if the held text is white space only."""
        self._is_open = bool(held) and not held.strip(BLANKS)

    def take(self, text: str) -> bool:
        """Collect `text` if it continues the run; return whether it does."""
        if not self._is_open or text.strip(BLANKS):
            return False
        self._parts.append(text)
        self.length += len(text)
        return True

    def end(self) -> str:
        """Return the collected white space, and collect nothing until the next `begin`."""
        collected = "".join(self._parts)
        self._parts, self.length, self._is_open = [], 0, False
        return collected
