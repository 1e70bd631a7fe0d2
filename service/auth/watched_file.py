"""A file that is read again when it changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

Content = TypeVar("Content")


class WatchedFile(Generic[Content]):
    """The newest content that could be read. To be used by one thread at a time; what it reads must be small."""

    def __init__(self, path: Path, read: Callable[[Path], Content]) -> None:
        """Passes on what `read` raises."""
        self._path = path
        self._read = read
        self._seen = self._state()
        self.content = read(path)

    def refresh(self) -> bool:
        """Whether the content is another one now.

        Passes on what `read` raises, once for each state of the file; the content stays then.
        """
        state = self._state()
        if state == self._seen:
            return False
        self._seen = state
        self.content = self._read(self._path)
        return True

    def _state(self) -> tuple[int, int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
