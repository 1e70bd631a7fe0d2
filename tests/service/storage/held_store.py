"""A store that holds calls of one of its methods until the test lets them pass."""

from __future__ import annotations

import threading
from typing import Any

from service.storage.responses.sql.store import SqlStore
from tests.waiting import GUARD_S


class HeldStore:
    """A store with a method, such as `jobs.add`, whose calls wait for `gate` while it `is_held`."""

    def __init__(self, store: SqlStore, method: str) -> None:
        self._store = store
        self._part, self._method = method.split(".")
        self.is_held = False
        self.entered = threading.Event()
        self.gate = threading.Event()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return _Part(found, self) if name == self._part else found

    def is_held_method(self, name: str) -> bool:
        """Return whether calls of the part's method wait."""
        return self.is_held and name == self._method


class _Part:
    """The part of a store that has the method."""

    def __init__(self, part: Any, held: HeldStore) -> None:
        self._found = part
        self._held = held

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._found, name)
        if not self._held.is_held_method(name):
            return found

        def wait(*arguments: Any, **options: Any) -> Any:
            self._held.entered.set()
            assert self._held.gate.wait(GUARD_S)
            return found(*arguments, **options)

        return wait
