"""The identity of a file's version, to detect that it was written again."""

from __future__ import annotations

from pathlib import Path

State = tuple[int, int, int, int] | None


def file_state(path: Path) -> State:
    """Return a value that changes when the file is written or replaced; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
