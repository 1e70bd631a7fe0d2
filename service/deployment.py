"""Which models and adapters are served, and how that changes while the service runs.

It belongs to the event loop. Changes go one after the other.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from service.config import Settings
from service.generation.adapter import AdapterLoaded
from service.generation.errors import InvalidRequest, UnsupportedTask
from service.registry.errors import AdapterExists, AdapterNotFound, AdaptersOff, ModelNotFound
from service.registry.models import Registry, ServedGenerator, adapted_name

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServedAdapter:
    """An adapter, and the model that requests use it as."""

    served: ServedGenerator
    folder: Path
    loaded: AdapterLoaded


class Deployment:
    """All that is served, by a registry's names."""

    def __init__(self, settings: Settings, registry: Registry) -> None:
        self._settings = settings
        self._registry = registry
        self._adapters: dict[str, ServedAdapter] = {}  # by the models' names with the adapters'
        self._changing = asyncio.Lock()

    async def load_adapter(self, model: str, name: str, folder: Path) -> ServedAdapter:
        """Serve an adapter of a model from now on, which is read from a folder.

        Raises ModelNotFound, UnsupportedTask, AdapterExists, AdapterRefused, TooManyAdapters, and what keeps the model
        from serving.
        """
        async with self._changing:
            served = self._base(model)
            if self._registry.is_taken_for_adapter(served.name, name):
                raise AdapterExists(name)
            loaded = await served.engine.load_adapter(name, folder)
            adapter = ServedAdapter(served.adapted(name, _fingerprint(served, loaded)), folder, loaded)
            self._adapters[adapter.served.name] = adapter
            self._registry.add(adapter.served)
            _log.info("adapter is ready", extra={"fields": {"model": adapter.served.name, "rank": loaded.rank}})
            return adapter

    async def load_allowed_adapter(self, model: str, name: str, path: str) -> ServedAdapter:
        """As `load_adapter`, for a caller: the folder must be below the setting's.

        Raises AdaptersOff, and InvalidRequest for another folder.
        """
        self._base(model)  # whoever may not use it isn't told more
        root = self._settings.adapters_root
        if root is None:
            raise AdaptersOff
        return await self.load_adapter(model, name, await asyncio.to_thread(below, root, path))

    async def unload_adapter(self, model: str, name: str) -> None:
        """Serve it no more, and return when its memory is free.

        Raises ModelNotFound or AdapterNotFound.
        """
        async with self._changing:
            served = self._base(model)
            adapter = self._registry.find(adapted_name(model, name))
            if not isinstance(adapter, ServedGenerator):
                raise AdapterNotFound(model, name)
            self._registry.remove(adapter.name)
            del self._adapters[adapter.name]
            await served.engine.drop_adapter(name, self._settings.drain_timeout_s)
            _log.info("adapter was unloaded", extra={"fields": {"model": adapter.name}})

    def adapters(self, model: str = "") -> Sequence[ServedAdapter]:
        """The adapters of a model, or of all, that the caller may use. Raises ModelNotFound and UnsupportedTask."""
        if model:
            self._base(model)
        return [self._adapters[each.name] for each in self._registry.adapters(model)]

    def _base(self, name: str) -> ServedGenerator:
        """The model of that very name. Raises ModelNotFound, and UnsupportedTask for one that takes no adapters."""
        if (model := self._registry.find(name)) is None:
            raise ModelNotFound(name)
        if not isinstance(model, ServedGenerator):
            raise UnsupportedTask(f"the model {name!r} doesn't generate text; it takes no adapters")
        if model.adapter:
            raise UnsupportedTask(f"the model {name!r} is an adapter; it takes no adapters")
        return model


def below(root: Path, path: str) -> Path:
    """The folder of a path that a caller named. Raises InvalidRequest unless it is one below `root`, links followed."""
    try:
        folder = (root / path).resolve()
        is_allowed = folder.is_relative_to(root.resolve()) and folder.is_dir()
    except (OSError, ValueError, RuntimeError):  # too long, a loop of links, a zero byte
        is_allowed = False
    if not is_allowed:
        raise InvalidRequest("path", "it must be a folder below the one that the service's settings allow")
    return folder


def _fingerprint(served: ServedGenerator, loaded: AdapterLoaded) -> str:
    described = f"{served.description.fingerprint}\0{loaded.digest}"
    return hashlib.sha256(described.encode()).hexdigest()[:12]
