"""A text that processes share in a file, which outlives them.

It is written whole, beside the old one, then put in its place, so that a reader finds the old state or the new one
whenever the writer dies. Writers take turns, and none overwrites what it hasn't read; in a process it belongs to one
thread at a time.
"""

from __future__ import annotations

import fcntl
import glob
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from service.storage.file_state import file_state
from service.storage.shared_text import Outdated

Content = TypeVar("Content")


class SharedFileError(OSError):
    """The file can't be used; the text is one line with its path."""


class SharedFile:
    """One such file. It need not be there; its folder must."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = file_state(self._path)

    def read(self, load: Callable[[str], Content]) -> Content | None:
        """What `load` makes of its text; None without a file. Removes what a writer that died left beside it.

        Raises SharedFileError, also for a ValueError of `load`: such a text is not overwritten.
        """
        if not self._path.parent.is_dir():
            raise SharedFileError(f"{self._path}: the folder does not exist")
        with _locked(self._path.parent):  # nobody is about to put them in place
            for left in self._path.parent.glob(f".{glob.escape(self._path.name)}.*.tmp"):
                left.unlink(missing_ok=True)
        state = file_state(self._path)
        try:
            content = load(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            self._seen = state
            return None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
            raise SharedFileError(f"{self._path}: {reason}") from error
        self._seen = state
        return content

    def write(self, text: str) -> None:
        """Put `text` in place of what it holds; it is on the disk when this returns, which takes its time.

        Raises OSError, or Outdated if somebody else has written it since; then it holds what it held.
        """
        folder = self._path.parent
        with _locked(folder):
            if self.is_newer():
                raise Outdated
            self._replace(folder, text)
            self._seen = file_state(self._path)

    def is_newer(self) -> bool:
        """Whether somebody else has written it since it was read or written here."""
        return file_state(self._path) != self._seen

    def _replace(self, folder: Path, text: str) -> None:
        handle, new = tempfile.mkstemp(prefix=f".{self._path.name}.", suffix=".tmp", dir=folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            Path(new).replace(self._path)
        except BaseException:
            Path(new).unlink(missing_ok=True)
            raise
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)  # the name itself is on the disk
        finally:
            os.close(directory)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """No other process writes such a file in the folder meanwhile."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
