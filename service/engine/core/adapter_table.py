"""The adapters that an engine's core has loaded, with their slots in the backend."""

from __future__ import annotations

from collections import abc
from pathlib import Path

from service.generation.adapter import AdapterLoaded
from service.generation.errors import AdapterRejected, TooManyAdapters


class AdapterTable:
    """Adapters by name, in `max_adapters` slots. Only the engine's thread uses it."""

    def __init__(
        self,
        put: abc.Callable[[int, Path], AdapterLoaded],
        drop: abc.Callable[[int], None],
        max_adapters: int,
    ) -> None:
        """`put` loads a folder into a slot, or raises AdapterRejected; `drop` empties a slot."""
        self.slots: dict[str, int] = {}
        self._put = put
        self._drop = drop
        self._digests: dict[str, str] = {}
        self._max_adapters = max_adapters

    def load(self, name: str, folder: Path, digest: str = "") -> AdapterLoaded:
        """Load an adapter under a name.

        Raise AdapterRejected, also if its digest is not `digest`, unless that is empty, or TooManyAdapters.
        """
        if name in self.slots:
            raise AdapterRejected(f"the model already has an adapter named {name!r}")
        if len(self.slots) >= self._max_adapters:
            message = f"the model has {len(self.slots)} adapters; engine.max_adapters is {self._max_adapters}"
            raise TooManyAdapters(message)
        slot = min(set(range(self._max_adapters)) - set(self.slots.values()))
        loaded = self._put(slot, folder)
        if digest and loaded.digest != digest:
            self._drop(slot)
            raise AdapterRejected("its files have changed since it was loaded; unload it and load it again")
        self.slots[name] = slot
        self._digests[name] = loaded.digest
        return loaded

    def drop(self, name: str) -> None:
        """Unload an adapter that no sequence uses any more. Do nothing for a name that is not loaded."""
        if (slot := self.slots.pop(name, None)) is not None:
            del self._digests[name]
            self._drop(slot)

    def digest(self, name: str) -> str:
        """Return the digest of an adapter's weights and settings, or "" for no adapter.

        Raise KeyError for an adapter that is not loaded.
        """
        return self._digests[name] if name else ""
