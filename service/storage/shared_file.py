"""A text file that several processes share, and that survives them.

A new text is written to a temporary file, which then replaces the old one, so that a reader finds the old state or the
new one even if the writer dies. Writers lock the folder, and none overwrites a version that it has not read. Within a
process the file is used by one thread at a time.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from process.files.file_state import file_state
from process.files.replacement import replace_file
from service.storage.shared_text import RECORD_S, Outdated


class SharedFileError(OSError):
    """The file can't be used; the message is one line with its path."""


class SharedFile:
    """A `TextStore` in a file. The file need not exist; its folder must."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = file_state(self._path)  # of the version that was read or written last here
        self._known = path.with_name(f".{path.name}.known")
        self._record = self._known / f"{secrets.token_hex(8)}.txt"

    def read(self) -> str | None:
        """Return the text, or None if the file does not exist, and remove temporary files of writers that died.

        Raise SharedFileError if the text can't be read.
        """
        if not self._path.parent.is_dir():
            raise SharedFileError(f"{self._path}: the folder does not exist")
        with _locked(self._path.parent):  # while the lock is held, no temporary file belongs to a running writer
            for left in self._path.parent.glob(f".{glob.escape(self._path.name)}.*.tmp"):
                left.unlink(missing_ok=True)
        state = file_state(self._path)
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            self._seen = state
            return None
        except (OSError, ValueError) as error:  # ValueError for a text that isn't UTF-8
            reason = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
            raise self.unreadable(reason or type(error).__name__) from error
        self._seen = state
        return text

    def unreadable(self, reason: str) -> SharedFileError:
        """Return the error for a text that can't be read or parsed."""
        return SharedFileError(f"{self._path}: {reason}")

    def write(self, text: str) -> None:
        """Replace the text; it is on the disk when this returns.

        Raise OSError, or Outdated if another process has written the file since it was read or written here. The file
        is unchanged then.
        """
        folder = self._path.parent
        with _locked(folder):
            if self.is_newer():
                raise Outdated
            replace_file(self._path, f"{text}\n")
            self._seen = file_state(self._path)

    def is_newer(self) -> bool:
        """Return whether another process has written the file since it was read or written here."""
        return file_state(self._path) != self._seen

    def num_behind(self) -> int:
        """Record that this process knows the text read or written last, and return how many others don't know it.

        Each process has a separate file in a folder next to the text, with the version that it knows. Raise OSError.
        """
        self._known.mkdir(exist_ok=True)
        version = repr(self._seen)
        new = self._record.with_suffix(".tmp")
        new.write_text(version, encoding="utf-8")
        new.replace(self._record)
        now, num_behind = self._record.stat().st_mtime, 0  # by the clock that dates the other records
        for record in self._known.glob("*.txt"):
            with contextlib.suppress(FileNotFoundError):  # its process has ended
                if now - record.stat().st_mtime > RECORD_S:
                    record.unlink()
                elif record.read_text(encoding="utf-8") != version:
                    num_behind += 1
        return num_behind

    def close(self) -> None:
        """Stop counting this process as a reader. The file is not kept open."""
        with contextlib.suppress(OSError):
            self._record.unlink(missing_ok=True)
            self._known.rmdir()  # fails unless this was the last process


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock that all writers of shared files in the folder take."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
