"""A link to a scripted core on a thread that can be relaunched, as the link to a process can."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from service.engine.interface.messages import Command
from service.engine.link.link import Receiver
from service.engine.link.loop import Core
from service.engine.link.thread_link import ThreadLink
from service.generation.errors import ModelChanged, ModelLoadError


class RelaunchedLink:
    """Runs a new core of `make_core` at each launch.

    Relaunches wait for `gate`, and fail while `is_broken` or `has_changed`.
    """

    pid = None
    is_suspended = False
    can_relaunch = True

    def __init__(self, make_core: Callable[[], Core]) -> None:
        self._make_core = make_core
        self._link = ThreadLink(make_core())
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_broken = False
        self.has_changed = False  # the model's files
        self.description: Any = None  # of the next core
        self.num_relaunches = 0

    def kill(self) -> None:
        """Do nothing, because a thread cannot be killed."""

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._link.start(receiver)

    async def relaunch(self) -> Any:
        self.num_relaunches += 1
        await self.gate.wait()
        if self.is_broken:
            raise ModelLoadError("too large")
        if self.has_changed:
            raise ModelChanged("the files have changed")
        self._link = ThreadLink(self._make_core())
        self._link.start(self._receiver)
        return self.description

    def send(self, command: Command) -> None:
        self._link.send(command)

    async def stop(self) -> None:
        await self._link.stop()
