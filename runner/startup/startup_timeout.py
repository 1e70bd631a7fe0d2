"""The time limit of a start, extended while loading makes progress."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Final

_SIGN: Final = "service.engine.models.checkpoint.byte_log"  # the logger of lines that bytes have moved


class StartupTimeout:
    """It ends `timeout_s` after the start, or after the service's last sign that a model is still on its way."""

    def __init__(self, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout_s = timeout_s
        self._clock = clock
        self._since = clock()

    def hear(self, name: str, text: str) -> None:
        """Take a line of a process's log."""
        if name == "service" and _SIGN in text:
            try:
                is_sign = json.loads(text).get("logger") == _SIGN
            except (ValueError, AttributeError):
                return
            if is_sign:
                self._since = self._clock()

    @property
    def left_s(self) -> float:
        """Until it ends; never below 0."""
        return max(0.0, self._since + self._timeout_s - self._clock())

    async def end(self) -> None:
        """Return when it is over."""
        while left_s := self.left_s:  # noqa: ASYNC110  signs come while it sleeps
            await asyncio.sleep(left_s)
