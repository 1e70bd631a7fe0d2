"""Signals that stop a process."""

from __future__ import annotations

import asyncio
import os
import signal


class StopSignal:
    """The wish to stop, from the first SIGTERM or SIGINT on; the second has its default effect, the process's end.

    SIGTERM leaves time for balancers to look elsewhere. SIGINT doesn't: who presses Ctrl-C has none.
    """

    def __init__(self) -> None:
        """Listen, on the running loop."""
        self.has_balancer = True
        self._asked = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, number)

    async def wait(self) -> None:
        """Return when the process is asked to stop."""
        await self._asked.wait()

    def delay_s(self, drain_delay_s: float) -> float:
        """How long to serve on while health says no."""
        return drain_delay_s if self.has_balancer else 0.0

    def _on_signal(self, number: signal.Signals) -> None:
        if self._asked.is_set():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.has_balancer = number is signal.SIGTERM
        self._asked.set()
