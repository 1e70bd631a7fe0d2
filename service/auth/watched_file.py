"""A file that is read again when it changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from service.storage.file_state import file_state

Content = TypeVar("Content")


class WatchedFile(Generic[Content]):
    """The newest content that could be read. To be used by one thread at a time; what it reads must be small."""

    def __init__(self, path: Path, read: Callable[[Path], Content]) -> None:
        """Passes on what `read` raises."""
        self._path = path
        self._read = read
        self._seen = file_state(self._path)
        self.content = read(path)

    def refresh(self) -> bool:
        """Whether the content is another one now.

        Passes on what `read` raises, once for each state of the file; the content stays then.
        """
        state = file_state(self._path)
        if state == self._seen:
            return False
        self._seen = state
        self.content = self._read(self._path)
        return True
