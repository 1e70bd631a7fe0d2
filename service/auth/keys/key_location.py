"""The location of keys: a file, or a store that replicas share."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from service.auth.keys.key_entry import KeyEntry, KeysError
from service.auth.keys.key_file import lock_keys, read_keys, write_keys
from service.auth.keys.shared_keys import NAME, SharedKeys
from service.storage.retries import pauses
from service.storage.shared_text import Outdated, SharedText

Change: TypeAlias = Callable[[list[KeyEntry]], tuple[list[KeyEntry], KeyEntry]]

_SCHEMES = ("redis://", "rediss://", "unix://")


def keys_at(location: str) -> list[KeyEntry]:
    """Return the keys at a file's path or a store's URL. Raise KeysError."""
    return _shared(location).content if location.startswith(_SCHEMES) else read_keys(Path(location))


def change_keys(location: str, change: Change, *, must_exist: bool = True) -> KeyEntry:
    """Read, change and write the keys atomically. Return the entry that `change` names. Raise KeysError."""
    if location.startswith(_SCHEMES):
        return _change_shared(location, change)
    path = Path(location)
    with lock_keys(path):
        entries, entry = change(read_keys(path) if must_exist or path.exists() else [])
        write_keys(path, entries)
        return entry


def _change_shared(url: str, change: Change) -> KeyEntry:
    """Change the keys of a shared store; start again if another process changes them meanwhile."""
    for pause_s in (0.0, *pauses()):
        time.sleep(pause_s)
        keys = _shared(url)
        entries, entry = change(keys.content)
        try:
            keys.write(entries)
        except Outdated:
            continue
        return entry
    raise KeysError("the keys are changed by others at the same time; try again")


def _shared(url: str) -> SharedKeys:
    try:
        return SharedKeys(SharedText(url, NAME))
    except ValueError as error:
        raise KeysError(str(error)) from error
