"""The time limit of a start, extended while loading makes progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from process.logs.loading_progress import reports_progress


class StartupTimeout:
    """A time limit that ends `timeout_s` after the start, or after the last progress that the service has reported."""

    def __init__(self, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout_s = timeout_s
        self._clock = clock
        self._since = clock()

    def observe(self, name: str, text: str) -> None:
        """Observe a line of a process's log; progress of the service restarts the time limit."""
        if name == "service" and reports_progress(text):
            self._since = self._clock()

    @property
    def left_s(self) -> float:
        """The seconds until the time limit; never below 0."""
        return max(0.0, self._since + self._timeout_s - self._clock())

    async def end(self) -> None:
        """Return when the time limit has passed."""
        while left_s := self.left_s:  # noqa: ASYNC110  progress may be reported while it sleeps
            await asyncio.sleep(left_s)
