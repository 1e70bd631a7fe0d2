"""Retry changes that fail temporarily, without blocking the others."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable

from service.generation.errors import EngineError, EngineRestarting
from service.registry.errors import RegistryError

_RETRY_S = 60.0  # after which what could not be done is tried again

_log = logging.getLogger(__name__)


class Attempts:
    """Remembers by name what failed, and when it is due again."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def all_are_due(self) -> None:
        """Wait for nothing any more: what kept something from being done may have changed."""
        self._due.clear()

    def have_failed(self, names: Iterable[str]) -> None:
        """These have just failed, and nothing else has."""
        self._due = dict.fromkeys(names, time.monotonic() + _RETRY_S)

    async def make(self, what: str, change: Callable[[], Awaitable[None]]) -> None:
        """Make a change if it is due; whatever it fails by is logged."""
        if time.monotonic() < self._due.get(what, 0.0):
            return
        try:
            await change()
            self._due.pop(what, None)
        except Exception as error:  # noqa: BLE001  else all changes after this one would never be made
            wait_s = error.retry_after_s if isinstance(error, EngineRestarting) else _RETRY_S
            self._due[what] = time.monotonic() + wait_s
            is_known = isinstance(error, EngineError | RegistryError | ValueError)
            _log.error("a change can't be made here: %s: %s", what, error, exc_info=None if is_known else error)
