"""The identity of a file's version, to detect that it was written again."""

from __future__ import annotations

from pathlib import Path

State = tuple[int, int, int, int] | None


def file_state(path: Path) -> State:
    """Equal as long as nobody writes the file or puts another in its place; None for one that isn't there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
