"""The state of each wanted model and adapter at this replica.

| state | meaning | left by |
|---|---|---|
| LOADING | wanted; being loaded or next to be | loaded → SERVED; load fails → FAILED; no longer wanted → no state |
| FAILED | wanted; the last load failed, the next is due later | next attempt → LOADING; no longer wanted → no state |
| SERVED | served as `entry` says | another entry is wanted → LOADING; no longer wanted → no state |

A name without a state is not wanted, or belongs to a proposal that is being applied. A served model may sleep; whether
it does is a fact of its engine. The registry's list of models that are not served follows from these states.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from service.registry.registry import Registry

Entry = TypeVar("Entry")  # a client's request to load; None stands for the entry of the settings

_LOADING_REASON: Final = "it is being loaded"


class State(enum.Enum):
    """The state of a wanted model or adapter on this replica."""

    LOADING = "loading"
    FAILED = "failed"
    SERVED = "served"


@dataclass(frozen=True, slots=True)
class _Item(Generic[Entry]):
    """The state of a name, with its entry if it is served."""

    state: State
    entry: Entry | None = None  # of SERVED


class States(Generic[Entry]):
    """States by name. Only the reconciler changes them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._items: dict[str, _Item[Entry]] = {}

    def state_of(self, name: str) -> State | None:
        """Return the state of a name, or None if it has none."""
        item = self._items.get(name)
        return item.state if item is not None else None

    @property
    def served(self) -> Mapping[str, Entry | None]:
        """The served entries by name."""
        return {name: item.entry for name, item in self._items.items() if item.state is State.SERVED}

    @property
    def all_failed(self) -> Collection[str]:
        """The names whose last load failed."""
        return [name for name, item in self._items.items() if item.state is State.FAILED]

    def set_loading(self, name: str) -> None:
        """Record that a load begins or will begin. Requests are rejected, so that another replica serves them."""
        self._items[name] = _Item(State.LOADING)
        self._registry.leave_out(name, _LOADING_REASON, is_loading=True)

    def set_failed(self, name: str, reason: str) -> None:
        """Record that a load failed, with the reason that clients get."""
        self._items[name] = _Item(State.FAILED)
        self._registry.leave_out(name, reason)

    def set_served(self, name: str, entry: Entry | None) -> None:
        """Record that a load succeeded. The registry has the model."""
        self._items[name] = _Item(State.SERVED, entry)

    def remove(self, name: str) -> None:
        """Remove a name that is neither wanted nor served."""
        self._items.pop(name, None)
        self._registry.forget(name)

    def set_wanted(self, wanted: Collection[str]) -> None:
        """Replace the wanted names: new names are loading, and names that are neither wanted nor served are removed."""
        for name in [name for name in self._items if name not in wanted and self.state_of(name) is not State.SERVED]:
            self.remove(name)
        for name in [name for name in wanted if name not in self._items]:
            self.set_loading(name)
