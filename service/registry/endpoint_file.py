"""The file that keeps endpoints across restarts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from service.registry.description import Endpoint
from service.storage.shared_file import SharedFile


class EndpointFormat(Protocol):
    """What such a file looks like."""

    def dump(self, endpoints: Iterable[Endpoint]) -> str:
        """The file's text."""

    def load(self, text: str) -> Sequence[Endpoint]:
        """The endpoints of a text, which may be written by hand. Raises ValueError."""


class EndpointFile:
    """An `EndpointStore` in a file. It need not be there; its folder must. All of it blocks."""

    def __init__(self, path: Path, form: EndpointFormat) -> None:
        self._file = SharedFile(path)
        self._form = form

    def read(self) -> Sequence[Endpoint]:
        """The endpoints it holds, in its order; none without a file. Raises SharedFileError."""
        return self._file.read(self._load) or []

    def write(self, endpoints: Iterable[Endpoint]) -> None:
        """Put `endpoints` in place of what it holds. Raises OSError, or Outdated."""
        self._file.write(self._form.dump(endpoints))

    def is_newer(self) -> bool:
        """Whether somebody else has written it since it was read or written here."""
        return self._file.is_newer()

    def _load(self, text: str) -> Sequence[Endpoint]:
        endpoints = self._form.load(text)
        names = [endpoint.name for endpoint in endpoints]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"duplicate endpoint {name!r}")
        return endpoints
