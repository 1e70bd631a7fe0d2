"""The folder of snapshots, with a limit of its size."""

from __future__ import annotations

import os
import re
import time
from collections import abc
from contextlib import suppress
from pathlib import Path
from typing import Final

from service.engine.core.blocks.cache_entry import CacheEntry
from service.engine.core.snapshot.snapshot_file import (
    Rows,
    is_readable,
    num_bytes,
    num_fitting,
    read_snapshot,
    write_snapshot,
)

_SUFFIX: Final = ".cache"
_NAME: Final = re.compile(rf"[0-9a-f]{{32}}\{_SUFFIX}(\.\d+)?")
_MAX_WRITE_S: Final = 10.0  # the rest is left out, so that the engine stops in time


class SnapshotFolder:
    """Files of at most `max_bytes` together, one for each seal. The files that were written last are kept.

    With a `key` of 32 bytes the files are encrypted.
    """

    def __init__(
        self,
        folder: Path,
        max_bytes: int,
        clock: abc.Callable[[], float] = time.monotonic,
        *,
        key: bytes | None = None,
    ) -> None:
        self.folder = folder
        self._max_bytes = max_bytes
        self._key = key
        self._clock = clock

    def path(self, seal: bytes) -> Path:
        """Return the path of the snapshot with a seal."""
        return self.folder / f"{seal.hex()[:32]}{_SUFFIX}"

    def read(self, seal: bytes, rows: abc.Sequence[Rows]) -> list[CacheEntry]:
        """Read the snapshot with a seal into the rows; an empty list if there is none, see `read_snapshot`."""
        try:
            return read_snapshot(self.path(seal), seal, rows, self._key)
        except FileNotFoundError:
            return []

    def remove_plain(self) -> int:
        """Remove the files that are not encrypted, if there is a key, and return their number."""
        num_removed = 0
        for path in self._files() if self._key is not None else ():
            with suppress(FileNotFoundError):  # another process may have removed it
                if is_readable(path):
                    path.unlink()
                    num_removed += 1
        return num_removed

    def write(self, seal: bytes, entries: abc.Sequence[CacheEntry], rows: abc.Sequence[Rows]) -> int:
        """Replace the snapshot with a seal, and return the number of entries that were written, the first ones.

        The oldest files are removed first, as far as the limit requires. The new file replaces the old one when it is
        complete. Raise OSError if it can't be written, for example because the disk is full.
        """
        entries = entries[: num_fitting(entries, rows, self._max_bytes)]
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._make_space(num_bytes(entries, rows))
        path, end_s = self.path(seal), self._clock() + _MAX_WRITE_S
        unfinished = path.with_suffix(f"{_SUFFIX}.{os.getpid()}")
        try:
            with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                num_written = write_snapshot(file, seal, entries, rows, lambda: self._clock() > end_s, key=self._key)
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        return num_written

    def _files(self) -> abc.Iterator[Path]:
        """Yield the paths of all snapshots, unfinished ones included; the folder may have other files."""
        return (path for path in self.folder.glob(f"*{_SUFFIX}*") if _NAME.fullmatch(path.name))

    def _make_space(self, num_needed: int) -> None:
        """Remove files, the oldest first, until `num_needed` more bytes are within the limit."""
        found: list[tuple[float, int, Path]] = []
        for path in self._files():
            with suppress(FileNotFoundError):  # another process may have removed it
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        num_left = self._max_bytes - num_needed
        for _, size, path in sorted(found, reverse=True):
            num_left -= size
            if num_left < 0:
                path.unlink(missing_ok=True)
