"""Work of the server in the background, which begins again if a fault ends it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

_PAUSE_S: Final = 5.0

_log = logging.getLogger(__name__)


async def keep_working(
    work: Callable[[], Awaitable[None]], sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Do the work until it ends by itself or this is cancelled. After a fault, log it and begin again later.

    A service in which it had ended would report that it serves, and one that ended with it would lose all calls.
    """
    while True:
        try:
            await work()
        except Exception:  # noqa: BLE001  any fault
            _log.exception("work in the background has failed, and begins again in %.0f s", _PAUSE_S)
            await sleep(_PAUSE_S)
        else:
            return


class BackgroundWork:
    """What a server does in the background until it stops."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work in a task, with `keep_working`."""
        self._tasks.append(asyncio.create_task(keep_working(work)))

    def cancel(self) -> None:
        """Cancel all of it."""
        for task in self._tasks:
            task.cancel()
