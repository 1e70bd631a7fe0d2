"""Signals that stop a process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine


class StopSignal:
    """A request to stop, from the first SIGTERM or SIGINT on; the second signal ends the process at once.

    SIGTERM leaves load balancers time to use other replicas. SIGINT, which is Ctrl-C, doesn't. SIGQUIT, as the first
    signal or a later one, ends the drain: requests that still run get an error.
    """

    def __init__(self) -> None:
        """Handle the signals, on the running loop."""
        self.has_balancer = True
        self._requested = asyncio.Event()
        self._drain_ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGQUIT, self._end_drain)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, number)

    async def wait(self) -> None:
        """Return when the process receives a stop signal."""
        await self._requested.wait()

    async def until_drained(self, drain: Coroutine[None, None, None]) -> None:
        """Return when `drain` is done, or when SIGQUIT ends it."""
        draining = asyncio.ensure_future(drain)
        ending = asyncio.create_task(self._drain_ended.wait())
        try:
            await asyncio.wait({draining, ending}, return_when=asyncio.FIRST_COMPLETED)
            if draining.done():
                draining.result()
        finally:
            ending.cancel()
            draining.cancel()
            await asyncio.wait({draining})

    def delay_s(self, drain_delay_s: float) -> float:
        """Return how long to keep serving while health checks fail."""
        return drain_delay_s if self.has_balancer else 0.0

    def _end_drain(self) -> None:
        """Request the stop, and end the drain at once."""
        self.has_balancer = False
        self._drain_ended.set()
        self._requested.set()

    def _on_signal(self, number: signal.Signals) -> None:
        """Request the stop. A second signal ends the process at once."""
        if self._requested.is_set():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.has_balancer = number is signal.SIGTERM
        self._requested.set()
