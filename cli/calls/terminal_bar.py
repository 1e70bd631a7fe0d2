"""A progress bar on the last line of a terminal."""

from __future__ import annotations

import sys
from typing import Final, TextIO

_WIDTH: Final = 30  # characters
_CLEAR: Final = "\r\x1b[2K"


class TerminalBar:
    """Draws progress on the line of the cursor, by default of standard error.

    `is_shown` is False if the output is not a terminal.
    """

    def __init__(self, terminal: TextIO | None = None) -> None:
        self._terminal = terminal or sys.stderr
        self.is_shown = self._terminal.isatty()
        self._is_drawn = False

    def clear(self) -> None:
        """Remove the bar."""
        if self._is_drawn:
            self._write("")
            self._is_drawn = False

    def _draw(self, label: str, done: int, total: int, amounts: str) -> None:
        """Draw `label`, then the bar and the text `amounts`. With a `total` of 0, draw the label only."""
        bar = f" [{'#' * (_WIDTH * done // total):.<{_WIDTH}}] {amounts}" if total else ""
        self._write(label + bar)
        self._is_drawn = True

    def _write(self, text: str) -> None:
        """Clear the line and write `text` on it."""
        self._terminal.write(_CLEAR + text)
        self._terminal.flush()
