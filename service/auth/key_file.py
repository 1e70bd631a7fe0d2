"""The file of API keys: read by the service, written by `sluice keys`.

A new version is written to a temporary file that then replaces the old one, readable by its owner only. Each writer
holds the folder's lock from reading to writing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from service.auth.key_entry import KeyEntry, KeysError, dump, load


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
        _replace(path.resolve(), dump(entries))
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


def _replace(path: Path, text: str) -> None:
    """Write a file's new content to the disk and rename it over the old one, with mode 0600."""
    handle, new = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)  # has mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(new).replace(path)
    except BaseException:
        Path(new).unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)  # makes the rename durable
    finally:
        os.close(directory)
