"""Limit the number of concurrent calls.

Engines limit their queues themselves. Runs on the event loop's thread only.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from service.calls.errors import Draining, Starting, TooManyCalls
from service.interceptors.policy import Behaviour, Context, Policy
from service.interceptors.rpcs import HEALTH, MONITORING
from service.observability.health import ServingPhase

_RETRY_AFTER_S = 1.0


class Admission(Policy):
    """Rejects calls while the service starts or drains, and above `max_concurrent_calls`."""

    def __init__(self, phase: Callable[[], ServingPhase], max_concurrent_calls: int) -> None:
        self._phase = phase
        self._max_concurrent_calls = max_concurrent_calls
        self._num_calls = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def until_idle(self, timeout_s: float) -> None:
        """Return when no call is being served, or after `timeout_s` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()

    async def apply(self, method: str, request: Any, context: Context, proceed: Behaviour) -> Any:
        if method in HEALTH:
            return await proceed(request, context)
        match self._phase():
            case ServingPhase.STARTING:
                raise Starting(_RETRY_AFTER_S)
            case ServingPhase.DRAINING:
                raise Draining(_RETRY_AFTER_S)
        if self._num_calls >= self._max_concurrent_calls and method not in MONITORING:
            raise TooManyCalls(self._max_concurrent_calls, _RETRY_AFTER_S)
        self._num_calls += 1
        self._idle.clear()
        try:
            return await proceed(request, context)
        finally:
            self._num_calls -= 1
            if not self._num_calls:
                self._idle.set()
