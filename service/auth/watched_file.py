"""A file that is reloaded when it changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from process.files.file_state import file_state

Content = TypeVar("Content")


class WatchedFile(Generic[Content]):
    """The newest valid content of a small file. May be used by one thread at a time."""

    def __init__(
        self, path: Path, read: Callable[[Path], Content], reread: Callable[[Path], Content] | None = None
    ) -> None:
        """Load the file with `read`, and later versions with `reread`, if given. Raise the exceptions of `read`."""
        self._path = path
        self._read = reread or read
        self._seen = file_state(self._path)
        self.content = read(path)

    def refresh(self) -> bool:
        """Reload the file if it has changed. Return True if the content is new.

        Raise the exceptions of `reread` once for each version of the file; the previous content then stays.
        """
        state = file_state(self._path)
        if state == self._seen:
            return False
        self._seen = state
        self.content = self._read(self._path)
        return True
