"""A bar in the terminal while a model is loaded."""

from __future__ import annotations

from typing import Any, TextIO

from cli.calls.terminal_bar import TerminalBar


class LoadBar(TerminalBar):
    """Draws the progress of an operation that loads a model."""

    def __init__(self, model: str, terminal: TextIO | None = None) -> None:
        super().__init__(terminal)
        self._model = model

    def update(self, operation: Any) -> None:
        """Draw the progress of an operation."""
        if not self.is_shown:
            return
        from sluice.v1 import operation_pb2  # noqa: PLC0415  imported on use, for a fast start

        progress = operation.progress
        phase = operation_pb2.LoadPhase.Name(progress.phase).removeprefix("LOAD_PHASE_").lower()
        amounts = f"{progress.loaded_bytes / 1e9:.2f} of {progress.total_bytes / 1e9:.2f} GB"
        self._draw(f"{self._model}: {phase}", progress.loaded_bytes, progress.total_bytes, amounts)
