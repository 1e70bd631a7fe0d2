"""The file that keeps endpoints over a restart.

It is written whole, beside the old one, then put in its place, so that a reader finds the old state or the new one
whenever the writer dies. Writers take turns, and none overwrites what it hasn't read; in a process it belongs to one
thread at a time.
"""

from __future__ import annotations

import fcntl
import glob
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from service.registry.description import Endpoint
from service.shared_text import Outdated


class EndpointFileError(OSError):
    """The file can't be used; the text is one line with its path."""


class EndpointFormat(Protocol):
    """What such a file looks like."""

    def dump(self, endpoints: Iterable[Endpoint]) -> str:
        """The file's text."""

    def load(self, text: str) -> Sequence[Endpoint]:
        """The endpoints of a text, which may be written by hand. Raises ValueError."""


class EndpointFile:
    """One such file. It need not be there; its folder must."""

    def __init__(self, path: Path, form: EndpointFormat) -> None:
        self._path = path
        self._form = form
        self._seen = self._state()

    def read(self) -> Sequence[Endpoint]:
        """The endpoints it holds, in its order; none without a file. Removes what a writer that died left beside it.

        Raises EndpointFileError.
        """
        if not self._path.parent.is_dir():
            raise EndpointFileError(f"{self._path}: the folder does not exist")
        with _locked(self._path.parent):  # nobody is about to put them in place
            for left in self._path.parent.glob(f".{glob.escape(self._path.name)}.*.tmp"):
                left.unlink(missing_ok=True)
        state = self._state()
        try:
            endpoints = self._form.load(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            self._seen = state
            return []
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
            raise EndpointFileError(f"{self._path}: {reason}") from error
        names = [endpoint.name for endpoint in endpoints]
        for name in names:
            if names.count(name) > 1:
                raise EndpointFileError(f"{self._path}: duplicate endpoint {name!r}")
        self._seen = state
        return endpoints

    def write(self, endpoints: Iterable[Endpoint]) -> None:
        """Put `endpoints` in place of what it holds; they are on the disk when this returns, which takes its time.

        Raises OSError, or Outdated if somebody else has written it since; then it holds what it held.
        """
        text = self._form.dump(endpoints)
        folder = self._path.parent
        with _locked(folder):
            if self.is_newer():
                raise Outdated
            self._replace(folder, text)
            self._seen = self._state()

    def is_newer(self) -> bool:
        """Whether somebody else has written it since it was read or written here."""
        return self._state() != self._seen

    def _state(self) -> tuple[int, int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

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
