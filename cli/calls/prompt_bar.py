"""A bar in the terminal while a long prompt is computed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final, TextIO

_LONG_MS: Final = 1000  # a prompt that takes less has no bar
_WIDTH: Final = 30  # characters
_CLEAR: Final = "\r\x1b[2K"


class PromptBar:
    """Draws the `prompt_progress` of a stream's events on one line, which it clears when the prompt is complete."""

    def __init__(self, terminal: TextIO = sys.stderr) -> None:
        self.is_shown = terminal.isatty()  # whether events with progress should be requested
        self._terminal = terminal
        self._is_drawn = False

    def update(self, event: Mapping[str, Any]) -> None:
        """Draw the progress of an event, if it has any and the prompt is expected to take longer than a second."""
        progress = event.get("prompt_progress")
        if not self.is_shown or progress is None:
            return
        total, cached, processed = progress["total"], progress["cache"], progress["processed"]
        if processed >= total:
            self.clear()
        elif self._is_drawn or progress["time_ms"] * (total - cached) > _LONG_MS * (processed - cached):
            bar = ("#" * (_WIDTH * processed // total)).ljust(_WIDTH, ".")
            self._terminal.write(f"{_CLEAR}prompt [{bar}] {processed:,} of {total:,} tokens")
            self._terminal.flush()
            self._is_drawn = True

    def clear(self) -> None:
        """Remove the bar."""
        if self._is_drawn:
            self._terminal.write(_CLEAR)
            self._terminal.flush()
            self._is_drawn = False
