"""Health from the engines' heartbeats, and the end of engines that have stalled or died."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable

from service.deployment.reconciler import Reconciler
from service.generation.errors import ModelChanged
from service.observability.health import Health, ServingPhase
from service.registry.registry import Registry
from service.settings.config import Settings

_CHECK_S = 1.0

_log = logging.getLogger(__name__)


class EngineDied(Exception):  # noqa: N818 - the name says what happened
    """An engine died; the text is one line for the operator."""


class EngineWatch:
    """Publishes the health of all engines, reloads changed models, and kills engine processes that have stalled."""

    def __init__(self, registry: Registry, health: Health, reconciler: Reconciler, settings: Settings) -> None:
        self._registry = registry
        self._health = health
        self._reconciler = reconciler
        self._settings = settings
        self._handled: set[asyncio.Future[BaseException]] = set()  # of engines that are reloaded

    async def run(self) -> None:
        """Check the engines until one has died; then raise EngineDied."""
        checked_at = time.monotonic()
        while True:
            await self._wait()
            ages = {served.name: served.engine.heartbeat_age_s for served in self._registry.loaded}
            await self._publish(ages)
            # If this process itself was stopped, heartbeats may be waiting to be read.
            was_late = time.monotonic() - checked_at > 2 * _CHECK_S
            checked_at = time.monotonic()
            if not was_late:
                self._kill_stalled(ages)

    async def _wait(self) -> None:
        """Wait for the next check, or for the end of an engine."""
        failures = {served.engine.failed: served.name for served in self._registry.loaded}
        if not self._unhandled(failures):
            if running := [failed for failed in failures if not failed.done()]:
                await asyncio.wait(running, timeout=_CHECK_S, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(_CHECK_S)
        ended = self._unhandled(failures)
        self._handled = {failed for failed in failures if failed.done()}
        for failed in ended:
            reason = failed.result()
            if isinstance(reason, ModelChanged):
                self._reconciler.request_reload(failures[failed])
                continue
            await self._health.enter(ServingPhase.FAILED)
            raise EngineDied(f"the engine of {failures[failed]} died: {type(reason).__name__}: {reason}")

    def _unhandled(self, failures: Iterable[asyncio.Future[BaseException]]) -> list[asyncio.Future[BaseException]]:
        """Return the failures of engines that have ended since the last check."""
        return [failed for failed in failures if failed.done() and failed not in self._handled]

    async def _publish(self, ages: dict[str, float]) -> None:
        is_suspended = any(served.engine.is_suspended for served in self._registry.loaded)
        is_stalled = max(ages.values(), default=0.0) > self._settings.max_heartbeat_age_s
        await self._health.set_stalled(is_suspended or is_stalled)
        await self._health.set_models(self._registry.loads)

    def _kill_stalled(self, ages: dict[str, float]) -> None:
        """End the processes of engines whose heartbeat is older than `max_stall_s`; they start again."""
        for served in self._registry.loaded:
            if ages.get(served.name, 0.0) > self._settings.max_stall_s and served.engine.pid is not None:
                message = "%s: the engine made no progress for %.0f s; its process is killed"
                _log.error(message, served.name, ages[served.name])
                served.engine.kill()
