"""A bar on one line of the terminal."""

from __future__ import annotations

import sys
from typing import Final, TextIO

_WIDTH: Final = 30  # characters
_CLEAR: Final = "\r\x1b[2K"


class TerminalBar:
    """Draws progress on the line of the cursor, if the output is a terminal."""

    def __init__(self, terminal: TextIO = sys.stderr) -> None:
        self.is_shown = terminal.isatty()
        self._terminal = terminal
        self._is_drawn = False

    def clear(self) -> None:
        """Remove the bar."""
        if self._is_drawn:
            self._write("")
            self._is_drawn = False

    def _draw(self, label: str, done: int, total: int, amounts: str) -> None:
        """Draw the label, and with a total a bar of the part that is done, with the amounts as a text."""
        bar = f" [{'#' * (_WIDTH * done // total):.<{_WIDTH}}] {amounts}" if total else ""
        self._write(label + bar)
        self._is_drawn = True

    def _write(self, text: str) -> None:
        """Replace the line."""
        self._terminal.write(_CLEAR + text)
        self._terminal.flush()
