"""The wanted state: the newest document of its store, and every change of it.

A change reaches the store first and then `on_change`, whether this replica or another one made it. Without a shared
store the document is kept in memory; nothing else differs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Generic

from service.storage.document import Document, DocumentStore
from service.storage.retries import pauses
from service.storage.shared_text import Outdated, SharedTextLost

_POLL_INTERVAL_S: Final = 0.1  # seconds between checks whether all replicas have read a change
REFRESH_INTERVAL_S: Final = 1.0  # seconds between checks of a shared store for other replicas' changes

_log = logging.getLogger(__name__)


class WantedState(Generic[Document]):
    """One document in step with its store. It is used on the event loop; `newest` may be read at any time."""

    def __init__(
        self,
        name: str,
        store: DocumentStore[Document],
        newest: Document,
        on_change: Callable[[Document], None],
        *,
        records_reads: bool = False,
    ) -> None:
        """`name` is for the log. `on_change` is called with each document that replaces the newest one.

        With `records_reads` each refresh records what this replica has read, so that others can call `until_known`.
        """
        self._records_reads = records_reads
        self.newest = newest
        self._name = name
        self._store = store
        self._on_change = on_change
        self._using_store = asyncio.Lock()  # held from a read to the write that depends on it

    @property
    def is_shared(self) -> bool:
        """True if other replicas may change the document."""
        return self._store.is_shared

    async def read(self) -> None:
        """Read the document at the start. Raise OSError or SharedTextLost."""
        async with self._using_store:
            self._take(await asyncio.to_thread(self._store.read))

    async def refresh(self) -> None:
        """Adopt the changes of other replicas. Raise OSError or SharedTextLost."""
        if self._store.is_shared:
            async with self._using_store:
                await self._read_if_newer()

    async def store(self, change: Callable[[Document], Document]) -> None:
        """Store and adopt `change` of the newest document.

        Raise the errors of `change`, OSError or SharedTextLost if the store fails, and Outdated if other replicas keep
        changing the document; nothing is changed then.
        """
        async with self._using_store:
            remaining = pauses()
            while not await self._stored(change(self.newest)):
                if (pause_s := next(remaining, None)) is None:
                    raise Outdated
                await asyncio.sleep(pause_s)
                await self._read_if_newer()

    async def catch_up(self) -> str:
        """Adopt the changes of other replicas, and record that. Return why the store is lost; empty if it isn't."""
        try:
            await self.refresh()
            if self._records_reads:
                with contextlib.suppress(OSError):  # a reader can still use a file that is readable but not writable
                    async with self._using_store:
                        await asyncio.to_thread(self._store.num_behind)
        except (OSError, SharedTextLost) as error:
            return str(error)
        return ""

    async def follow(
        self,
        on_loss: Callable[[bool], Awaitable[None]],
        on_refresh: Callable[[], None] = lambda: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Refresh from a shared store at intervals until cancelled. The known document is kept while the store is lost.

        `on_loss` is called when the store is lost and when it is back; `on_refresh` after each refresh.
        """
        is_lost = False
        while self._store.is_shared:
            await sleep(REFRESH_INTERVAL_S)
            try:
                reason = await self.catch_up()
                if bool(reason) is not is_lost:
                    is_lost = bool(reason)
                    self._log_loss(reason)
                    await on_loss(is_lost)
            except Exception:  # noqa: BLE001  a replica that stopped following would not be noticed
                _log.exception("the store of %s could not be read", self._name)
            on_refresh()

    async def until_known(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Return when every other running replica has recorded in the store that it follows the newest document.

        If the store is lost meanwhile, return too: the document is stored, and the others follow it when it is back.
        """
        while self._store.is_shared and await self._has_readers_behind():
            await sleep(_POLL_INTERVAL_S)

    def close(self) -> None:
        """Release the store's connection."""
        self._store.close()

    async def _stored(self, wanted: Document) -> bool:
        """Store and adopt a document. Return False if another replica was faster. The caller holds the lock."""
        try:
            if not self._store.is_shared:
                self._store.write(wanted)
            elif wanted != self.newest:
                await asyncio.to_thread(self._store.write, wanted)
        except Outdated:
            return False
        self._take(wanted)
        return True

    async def _read_if_newer(self) -> None:
        """Read the document if the store's is newer. The caller holds the lock."""
        if await asyncio.to_thread(self._store.is_newer):
            self._take(await asyncio.to_thread(self._store.read))

    async def _has_readers_behind(self) -> bool:
        """Return whether a replica has not read the newest document; False if the store is lost."""
        try:
            async with self._using_store:
                return await asyncio.to_thread(self._store.num_behind) > 0
        except (OSError, SharedTextLost):
            return False

    def _log_loss(self, reason: str) -> None:
        if reason:
            text = "the store of %s is lost; what is known stays and can't be changed until the store is back"
            _log.warning(text, self._name, extra={"fields": {"reason": reason}})
        else:
            _log.info("the store of %s is back", self._name)

    def _take(self, document: Document) -> None:
        """Replace the newest document, and call `on_change`."""
        self.newest = document
        self._on_change(document)
