"""A command that creates a file when a worker process receives it, and so has received all commands before it."""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass
from pathlib import Path

from service.engine.interface.messages import Abort
from service.engine.link.worker.wire import NO_SERIAL


@dataclass(frozen=True, slots=True)
class Mark(Abort):
    """A command that ends no request. The process that receives it creates a file, even during a step."""

    path: Path

    def __reduce__(self) -> tuple[abc.Callable[[Path], Abort], tuple[Path]]:
        """Create the file when the command is unpickled."""
        return _received, (self.path,)


def _received(path: Path) -> Abort:
    path.touch()
    return Abort(NO_SERIAL)
