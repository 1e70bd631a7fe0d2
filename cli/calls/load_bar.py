"""A bar in the terminal while a model is loaded."""

from __future__ import annotations

import sys
from typing import Any, Final, TextIO

_WIDTH: Final = 30  # characters
_CLEAR: Final = "\r\x1b[2K"


class LoadBar:
    """Draws the progress of an operation on one line, which it clears at the end."""

    def __init__(self, model: str, terminal: TextIO = sys.stderr) -> None:
        self.is_shown = terminal.isatty()
        self._model = model
        self._terminal = terminal
        self._is_drawn = False

    def update(self, operation: Any) -> None:
        """Draw the progress of an operation."""
        if not self.is_shown:
            return
        from sluice.v1 import operation_pb2  # noqa: PLC0415  imported on use, for a fast start

        progress = operation.progress
        phase = operation_pb2.LoadPhase.Name(progress.phase).removeprefix("LOAD_PHASE_").lower()
        text = f"{self._model}: {phase}"
        if progress.total_bytes:
            bar = ("#" * (_WIDTH * progress.loaded_bytes // progress.total_bytes)).ljust(_WIDTH, ".")
            text += f" [{bar}] {progress.loaded_bytes / 1e9:.2f} of {progress.total_bytes / 1e9:.2f} GB"
        self._terminal.write(f"{_CLEAR}{text}")
        self._terminal.flush()
        self._is_drawn = True

    def clear(self) -> None:
        """Remove the bar."""
        if self._is_drawn:
            self._terminal.write(_CLEAR)
            self._terminal.flush()
            self._is_drawn = False
