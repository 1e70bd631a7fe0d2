"""The wanted changes, in step with their store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from service.deployment.change_store import ChangeStore
from service.deployment.changes import Changes
from service.registry.errors import ChangesUnavailable
from service.storage.shared_text import Outdated, SharedTextLost

LOOK_S = 1.0  # how often the store is asked for what others have changed
_MAX_TRIES = 8  # of a change that others have come before


class WantedChanges:
    """Without a store they are this process's own. It belongs to the event loop, and can be looked at at any time."""

    def __init__(self, store: ChangeStore | None, on_newer: Callable[[], None]) -> None:
        """`on_newer` is called after each look that found what others have changed."""
        self.newest = Changes()
        self._store = store
        self._on_newer = on_newer
        self._using_store = asyncio.Lock()  # a look between a change and its writing would let it overwrite another

    @property
    def is_shared(self) -> bool:
        """Whether there is a store."""
        return self._store is not None

    async def read(self) -> None:
        """Know what the store has at the start. Raises OSError, or SharedTextLost."""
        async with self._using_store:
            if self._store is not None:
                self.newest = await asyncio.to_thread(self._store.read)

    async def look(self) -> None:
        """Know what others have changed. Raises OSError, or SharedTextLost."""
        async with self._using_store:
            if self._store is not None and await asyncio.to_thread(self._store.is_newer):
                self.newest = await asyncio.to_thread(self._store.read)
                self._on_newer()

    async def refresh(self) -> None:
        """As `look`, for a caller's change. Raises ChangesUnavailable."""
        try:
            await self.look()
        except (OSError, SharedTextLost) as error:
            raise ChangesUnavailable(LOOK_S) from error

    async def keep(self, change: Callable[[Changes], Changes]) -> None:
        """Make a change of the newest that the store has. Raises ChangesUnavailable, and what `change` raises."""
        for _ in range(_MAX_TRIES):
            try:
                async with self._using_store:
                    wanted = change(self.newest)
                    if self._store is not None and wanted != self.newest:
                        await asyncio.to_thread(self._store.write, wanted)
                    self.newest = wanted
                    return
            except Outdated:
                await self.refresh()
            except (OSError, SharedTextLost) as error:
                raise ChangesUnavailable(LOOK_S) from error
        raise ChangesUnavailable(LOOK_S)
