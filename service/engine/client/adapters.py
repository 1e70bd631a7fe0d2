"""Load and unload a generator's adapters while requests run, and load them again after a restart."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import abc
from functools import partial
from pathlib import Path

from service.engine.interface.config import EngineConfig
from service.engine.interface.messages import Command, DropAdapter, LoadAdapter, Output
from service.generation.adapter import AdapterLoaded
from service.generation.errors import AdapterLost, AdapterRejected, EngineError, EngineFailed, TooManyAdapters

_log = logging.getLogger(__name__)

CallCore = abc.Callable[[abc.Callable[[int], Command]], abc.Awaitable[Output]]


class Adapters:
    """The loaded adapters of one generator. Used by the event loop only."""

    def __init__(self, config: EngineConfig, call: CallCore) -> None:
        """`call` sends the command that its argument makes of a new serial, and waits for the output."""
        self._config = config
        self._call = call
        self._folders: dict[str, Path] = {}
        self._digests: dict[str, str] = {}
        self._lost: dict[str, str] = {}  # the reasons, without the paths of the folders
        self._reloading: set[asyncio.Task[None]] = set()
        self._changing = asyncio.Lock()

    def check(self, name: str) -> None:
        """Raise AdapterLost if requests can't use the adapter of that name."""
        if name and name in self._lost:
            raise AdapterLost(f"the adapter {name!r} could not be loaded again: {self._lost[name]}")
        if name and name not in self._folders:
            raise AdapterLost(f"the adapter {name!r} is not loaded")

    async def load(self, name: str, folder: Path) -> AdapterLoaded:
        """Load an adapter. Raise AdapterRejected or TooManyAdapters, or an error of the engine."""
        async with self._changing:
            self._check_new(name)
            loaded = await self._call(partial(LoadAdapter, name=name, folder=folder))
            assert isinstance(loaded, AdapterLoaded)  # noqa: S101  the answer to this command
            self._folders[name], self._digests[name] = folder, loaded.digest
            return loaded

    def add_unloaded(self, name: str, folder: Path, digest: str) -> None:
        """Add an adapter of a core that sleeps: `load_again` loads it. Raise AdapterRejected or TooManyAdapters."""
        self._check_new(name)
        self._folders[name], self._digests[name] = folder, digest

    def _check_new(self, name: str) -> None:
        """Raise AdapterRejected if there is an adapter of that name, and TooManyAdapters if there can't be another."""
        if name in self._folders:
            raise AdapterRejected(f"the model has an adapter named {name!r}")
        if len(self._folders) >= (most := self._config.max_adapters or 0):
            raise TooManyAdapters(f"the model has {len(self._folders)} adapters; engine.max_adapters is {most}")

    async def drop(self, name: str, *, is_down: bool) -> None:
        """Unload an adapter that no request uses any more. A core that is down (`is_down`) has already unloaded it."""
        async with self._changing:
            self._folders.pop(name, None)
            self._digests.pop(name, None)
            self._lost.pop(name, None)
            if is_down:
                return
            with contextlib.suppress(EngineFailed):  # a failed core has unloaded it, too
                await self._call(partial(DropAdapter, name=name))

    def load_again(self) -> None:
        """Load all adapters again after the core was restarted, before any request.

        An adapter whose files have changed is lost: its fingerprint would no longer identify it.
        """
        self._lost.clear()
        for name, folder in self._folders.items():
            loading = self._call(partial(LoadAdapter, name=name, folder=folder, digest=self._digests[name]))
            task = asyncio.ensure_future(self._finish_reload(name, loading))
            self._reloading.add(task)
            task.add_done_callback(self._reloading.discard)

    async def _finish_reload(self, name: str, loading: abc.Awaitable[Output]) -> None:
        try:
            await loading
        except EngineError as error:
            _log.error("the adapter %s could not be loaded again: %s", name, error)
            if (folder := self._folders.get(name)) is not None:  # else it was dropped meanwhile
                self._lost[name] = str(error).replace(f"{folder}/", "")  # paths are for operators
