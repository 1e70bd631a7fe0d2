"""Keys that all replicas share in a store, as text in the format of the keys file."""

from __future__ import annotations

from service.auth.keys.key_entry import KeyEntry, KeysError, dump, load
from service.storage.shared_text import SharedText, SharedTextLost

NAME = "keys"


class SharedKeys:
    """The newest valid keys. All methods block, and may be used by one thread at a time."""

    def __init__(self, text: SharedText) -> None:
        """Read the keys. Raise KeysError."""
        self._text = text
        self._is_lost = False
        self.content = self._read()

    def refresh(self) -> bool:
        """Reload the keys. Return True if they changed. Raise KeysError once per failure, and keeps the keys."""
        try:
            if not self._text.is_newer():
                self._is_lost = False
                return False
        except SharedTextLost as error:
            if self._is_lost:
                return False
            self._is_lost = True
            raise KeysError(f"the store is lost: {error}") from error
        self._is_lost = False
        self.content = self._read()
        return True

    def write(self, entries: list[KeyEntry]) -> None:
        """Replace all keys. Raise KeysError, or Outdated."""
        try:
            self._text.write(dump(entries))
        except SharedTextLost as error:
            raise KeysError(f"the store is lost: {error}") from error
        self.content = entries

    def _read(self) -> list[KeyEntry]:
        """Return the entries of the store. Raise KeysError if it is lost or invalid."""
        try:
            text = self._text.read()
        except SharedTextLost as error:
            raise KeysError(f"the store is lost: {error}") from error
        return [] if text is None else load(text)
