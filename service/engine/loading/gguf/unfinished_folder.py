"""A folder that is filled under a name of its own and renamed when it is complete."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r".+\.[a-z0-9_]{8}")  # mkdtemp adds eight characters


@contextmanager
def unfinished_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder next to `folder`, which is removed at the end unless it was renamed. Raise OSError.

    Its process holds a lock on it. What a killed process left, which nobody locks, is removed, so the names of complete
    folders may not end with a full stop and eight lower-case letters, digits or underscores.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    parent = _open(folder.parent)
    try:
        if _lock(parent, fcntl.LOCK_EX):  # no process finds the new folder before it is locked
            _remove_unlocked(folder.parent)
        building = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
        own = _open(building)
        _lock(own, fcntl.LOCK_EX)
    finally:
        os.close(parent)
    try:
        yield building
    finally:
        shutil.rmtree(building, ignore_errors=True)  # a no-op after the rename
        os.close(own)


def _remove_unlocked(parent: Path) -> None:
    """Remove the unfinished folders that no process holds."""
    for folder in parent.iterdir():
        if _NAME.fullmatch(folder.name) is None or not folder.is_dir():
            continue
        try:
            handle = _open(folder)
        except OSError:  # its process has just renamed or removed it, or it belongs to another user
            continue
        try:
            if _lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


def _lock(handle: int, operation: int) -> bool:
    """Return True if a folder is locked; False if another process holds it or its file system has no locks."""
    try:
        fcntl.flock(handle, operation)
    except OSError:
        return False
    return True
