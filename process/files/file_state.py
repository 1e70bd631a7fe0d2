"""The identity of a file's version, to detect that it was written again."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

FileState: TypeAlias = tuple[int, int, int, int] | None  # device, inode, size in bytes, time of the last change in ns


def file_state(path: Path) -> FileState:
    """Return a value that changes when the file is written or replaced; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
