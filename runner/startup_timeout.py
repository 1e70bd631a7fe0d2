"""The time limit of a start, extended while loading makes progress."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Final

_PROGRESS_LOGGER: Final = "service.engine.models.checkpoint.byte_log"  # the logger of progress lines


class StartupTimeout:
    """A timeout that ends `timeout_s` after the start, or after the service's last progress line of a model load."""

    def __init__(self, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout_s = timeout_s
        self._clock = clock
        self._since = clock()

    def observe(self, name: str, text: str) -> None:
        """Observe a line of a process's log."""
        if name == "service" and _PROGRESS_LOGGER in text:
            try:
                is_progress = json.loads(text).get("logger") == _PROGRESS_LOGGER
            except (ValueError, AttributeError):
                return
            if is_progress:
                self._since = self._clock()

    @property
    def left_s(self) -> float:
        """The seconds until the timeout ends; never negative."""
        return max(0.0, self._since + self._timeout_s - self._clock())

    async def end(self) -> None:
        """Return when the timeout has ended."""
        while left_s := self.left_s:  # noqa: ASYNC110  progress extends it while this sleeps
            await asyncio.sleep(left_s)
