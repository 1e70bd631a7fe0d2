"""The file that keeps endpoints over a restart.

It is written whole, beside the old one, then put in its place, so that a reader finds the old state or the new one
whenever the writer dies. One process writes it at a time; in that, one thread at a time.
"""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from service.registry.description import Endpoint


class EndpointFileError(Exception):
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

    def read(self) -> Sequence[Endpoint]:
        """The endpoints it holds, in its order; none without a file. Removes what a writer that died left beside it.

        Raises EndpointFileError.
        """
        if not self._path.parent.is_dir():
            raise EndpointFileError(f"{self._path}: the folder does not exist")
        for left in self._path.parent.glob(f".{glob.escape(self._path.name)}.*.tmp"):
            left.unlink(missing_ok=True)
        try:
            endpoints = self._form.load(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
            raise EndpointFileError(f"{self._path}: {reason}") from error
        names = [endpoint.name for endpoint in endpoints]
        for name in names:
            if names.count(name) > 1:
                raise EndpointFileError(f"{self._path}: duplicate endpoint {name!r}")
        return endpoints

    def write(self, endpoints: Iterable[Endpoint]) -> None:
        """Put `endpoints` in place of what it holds; they are on the disk when this returns, which takes its time.

        Raises OSError; then it holds what it held.
        """
        text = self._form.dump(endpoints)
        folder = self._path.parent
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
