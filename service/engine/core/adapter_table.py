"""The adapters that an engine's core has loaded: their names, and their slots in the backend."""

from __future__ import annotations

from collections import abc
from pathlib import Path

from service.generation.adapter import AdapterLoaded
from service.generation.errors import AdapterRefused, TooManyAdapters


class AdapterTable:
    """`max_adapters` slots. Only the engine's thread uses it."""

    def __init__(
        self,
        put: abc.Callable[[int, Path], AdapterLoaded],
        drop: abc.Callable[[int], None],
        max_adapters: int,
    ) -> None:
        """`put` reads a folder and holds it at a slot, or raises AdapterRefused; `drop` forgets a slot."""
        self.slots: dict[str, int] = {}
        self._put = put
        self._drop = drop
        self._digests: dict[str, str] = {}
        self._max_adapters = max_adapters

    def load(self, name: str, folder: Path) -> AdapterLoaded:
        """Read an adapter and hold it under a name. Raises AdapterRefused or TooManyAdapters."""
        if name in self.slots:
            raise AdapterRefused(f"the model has an adapter named {name!r}")
        if len(self.slots) >= self._max_adapters:
            message = f"the model has {len(self.slots)} adapters; engine.max_adapters is {self._max_adapters}"
            raise TooManyAdapters(message)
        slot = min(set(range(self._max_adapters)) - set(self.slots.values()))
        loaded = self._put(slot, folder)
        self.slots[name] = slot
        self._digests[name] = loaded.digest
        return loaded

    def drop(self, name: str) -> None:
        """Forget an adapter that no sequence has any more; does nothing for a name that isn't held."""
        if (slot := self.slots.pop(name, None)) is not None:
            del self._digests[name]
            self._drop(slot)

    def digest(self, name: str) -> str:
        """Changes with what may change an adapter's tokens; empty for no adapter. KeyError for one that isn't held."""
        return self._digests[name] if name else ""
