"""The store of changes: a file, or one that replicas share."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from service.deployment.changes import Changes
from service.storage.shared_file import SharedFile
from service.storage.shared_text import SharedText, SharedTextLost

NAME = "models"


class ChangeStore(Protocol):
    """Keeps the changes of all replicas of a pool. All of it may block. What raises changes nothing."""

    def read(self) -> Changes:
        """The newest state. Raises OSError, or SharedTextLost."""

    def write(self, changes: Changes) -> None:
        """Put `changes` in place of what was read or written last. Raises OSError, SharedTextLost, or Outdated."""

    def is_newer(self) -> bool:
        """Whether it holds something else than what was read or written last. Raises OSError, or SharedTextLost."""

    def close(self) -> None:
        """Use it no more."""


class ChangeFile:
    """In a file."""

    def __init__(self, path: Path) -> None:
        self._file = SharedFile(path)

    def read(self) -> Changes:
        return self._file.read(Changes.of_text) or Changes()

    def write(self, changes: Changes) -> None:
        self._file.write(changes.to_text())

    def is_newer(self) -> bool:
        return self._file.is_newer()

    def close(self) -> None:
        """Nothing is open."""


class SharedChanges:
    """In a text of Redis."""

    def __init__(self, text: SharedText) -> None:
        self._text = text
        self._is_read = True

    def read(self) -> Changes:
        self._is_read = False
        text = self._text.read()
        try:
            changes = Changes() if text is None else Changes.of_text(text)
        except ValueError as error:
            raise SharedTextLost(f"the changes there can't be read: {' '.join(str(error).split())}") from error
        self._is_read = True
        return changes

    def write(self, changes: Changes) -> None:
        self._text.write(changes.to_text())

    def is_newer(self) -> bool:
        return not self._is_read or self._text.is_newer()

    def close(self) -> None:
        self._text.close()
