"""Retry steps that fail temporarily, without blocking the others."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from service.generation.errors import EngineError, EngineRestarting
from service.registry.errors import RegistryError

RETRY_S: Final = 60.0  # interval between attempts of a step that fails

_log = logging.getLogger(__name__)


class Attempts:
    """The failed steps by name, with the time at which each is due again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}

    def make_all_due(self) -> None:
        """Make every failed step due now: the reason of its failure may have changed."""
        self._due.clear()

    def have_failed(self, names: Iterable[str]) -> None:
        """Record that these steps, and no others, have just failed."""
        self._due = dict.fromkeys(names, self._clock() + RETRY_S)

    async def make(self, name: str, step: Callable[[], Awaitable[None]]) -> None:
        """Run a step if it is due. A failure is logged, not raised."""
        if self._clock() < self._due.get(name, 0.0):
            return
        try:
            await step()
            self._due.pop(name, None)
        except Exception as error:  # noqa: BLE001  the steps after this one must still be taken
            wait_s = error.retry_after_s if isinstance(error, EngineRestarting) else RETRY_S
            self._due[name] = self._clock() + wait_s
            is_known = isinstance(error, EngineError | RegistryError | ValueError)
            _log.error(
                "a change can't be applied by this replica: %s: %s", name, error, exc_info=None if is_known else error
            )
