"""A bar in the terminal while a long prompt is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cli.calls.terminal_bar import TerminalBar

_LONG_MS: Final = 1000  # a prompt that takes less has no bar


class PromptBar(TerminalBar):
    """Draws the `prompt_progress` of a stream's events, which are requested only if the bar `is_shown`."""

    def update(self, event: Mapping[str, Any]) -> None:
        """Draw the progress of an event, if the prompt is expected to take longer than a second, until it is complete.

        An event without progress changes nothing.
        """
        progress = event.get("prompt_progress")
        if not self.is_shown or progress is None:
            return
        total, cached, processed = progress["total"], progress["cache"], progress["processed"]
        if processed >= total:
            self.clear()
        elif self._is_drawn or progress["time_ms"] * (total - cached) > _LONG_MS * (processed - cached):
            self._draw("prompt", processed, total, f"{processed:,} of {total:,} tokens")
