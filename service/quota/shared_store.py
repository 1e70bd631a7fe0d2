"""Fall back when the shared store is lost: each replica counts for itself, or rejects, until it returns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from service.quota.errors import QuotaUnavailable
from service.quota.store import Demand, Reading, Store, StoreLost

_PROBE_S = 1.0

_log = logging.getLogger(__name__)


class SharedStore:
    """A `Store` that uses `remote` until it raises StoreLost, then `local`; raises QuotaUnavailable if that is None.

    The loss and the recovery are logged once. The remote store is probed every `probe_s`; meanwhile no request waits.
    """

    def __init__(
        self, remote: Store, local: Store | None, on_change: Callable[[bool], None], probe_s: float = _PROBE_S
    ) -> None:
        """`on_change` is called with whether the remote store is lost, whenever that changes."""
        self._remote = remote
        self._local = local
        self._on_change = on_change
        self._probe_s = probe_s
        self._probing: asyncio.Task[None] | None = None

    @property
    def is_lost(self) -> bool:
        """True if the remote store is lost."""
        return self._probing is not None

    async def start(self) -> None:
        """Probe the remote store, which may be unavailable."""
        try:
            await self._remote.start()
        except StoreLost as error:
            self._lose(error)

    async def take(self, demand: Demand) -> Reading:
        """Take a demand as Store.take. Raise QuotaUnavailable."""
        if not self.is_lost:
            try:
                return await self._remote.take(demand)
            except StoreLost as error:
                self._lose(error)
        if self._local is None:
            raise QuotaUnavailable(self._probe_s)
        return await self._local.take(demand)

    async def close(self) -> None:
        """Close both stores."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait({self._probing})
        await self._remote.close()
        if self._local is not None:
            await self._local.close()

    def _lose(self, error: StoreLost) -> None:
        """Log and report the loss of the store, and begin to probe it."""
        if self.is_lost:
            return  # another request has reported it already
        policy = "requests of callers with limits are rejected" if self._local is None else "this replica counts alone"
        _log.warning("the quota store is lost; %s until it is back", policy, extra={"fields": {"reason": str(error)}})
        self._probing = asyncio.create_task(self._probe())
        self._on_change(True)

    async def _probe(self) -> None:
        """Probe the lost store at intervals, and return when it answers."""
        while True:
            await asyncio.sleep(self._probe_s)
            try:
                await self._remote.start()
            except StoreLost:
                continue
            _log.info("the quota store is back")
            self._probing = None
            self._on_change(False)
            return
