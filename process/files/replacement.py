"""Replace a file so that every reader finds its old or its new content, even if the writer dies."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file's new content, which is on the disk when this returns. Raise OSError.

    The content is written to a temporary file, `.NAME.*.tmp` in the same folder, which is renamed.
    """
    handle, new = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(new).replace(path)
    except BaseException:
        Path(new).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)  # makes the rename durable
    finally:
        os.close(folder)
