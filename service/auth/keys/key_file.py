"""The file of API keys: read by the service, written by `sluice keys`.

A new version is written to a temporary file that then replaces the old one, readable by its owner only. Each writer
holds the folder's lock from reading to writing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from process.files.replacement import replace_file
from service.auth.keys.key_entry import KeyEntry, KeysError, dump, load


def read_keys(path: Path) -> list[KeyEntry]:
    """Return the keys of a file. Raise KeysError, whose text begins with the path."""
    try:
        return load(path.read_text(encoding="utf-8"))
    except KeysError as error:
        raise KeysError(f"{path}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not in UTF-8"
        raise KeysError(f"{path}: {reason}") from error


def reread_keys(path: Path) -> list[KeyEntry]:
    """Return the keys of a file that has changed. Raise KeysError, also for a file without any text.

    Such a file is being written, or was truncated by a full disk; it must not revoke all keys.
    """
    entries = read_keys(path)
    if not entries and not path.read_text(encoding="utf-8").strip():
        raise KeysError(f"{path}: the file is empty; to revoke all keys, write `keys: []`")
    return entries


def write_keys(path: Path, entries: Iterable[KeyEntry]) -> None:
    """Replace the keys of the file; they are on disk when this returns. Raise KeysError."""
    try:
        replace_file(path.resolve(), dump(entries))
    except OSError as error:
        raise KeysError(f"{path}: {error.strerror}") from error


@contextlib.contextmanager
def lock_keys(path: Path) -> Iterator[None]:
    """Lock the file's folder against other writers. Raise KeysError if the folder does not exist."""
    try:
        folder = os.open(path.resolve().parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise KeysError(f"{path.parent}: {error.strerror}") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
