"""The models and adapters that are served, and how they change while the service runs.

It belongs to the event loop. Changes go one after the other.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from service.call import current_caller
from service.engine.port import Engine, StepObserver
from service.generation.adapter import AdapterLoaded
from service.generation.errors import InvalidRequest, UnsupportedTask
from service.registry.errors import AdapterExists, AdapterNotFound, LoadingOff, ModelExists, ModelNotFound
from service.registry.models import Registry, ServedGenerator, ServedModel, adapted_name
from service.settings.config import Settings
from service.settings.model_settings import ModelSettings

LoadModel: TypeAlias = Callable[[ModelSettings, StepObserver], Awaitable[ServedModel]]

_CACHE_SHARE = 0.5  # of the memory for caches that is free, where a caller doesn't say: there may be others to come

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServedAdapter:
    """An adapter, and the model that requests use it as."""

    served: ServedGenerator
    folder: Path
    loaded: AdapterLoaded


class EngineShow(Protocol):
    """Who shows the engines' numbers."""

    def observer(self, model: str) -> StepObserver:
        """Who is told of the steps of a model's engine."""

    def add(self, model: str, engine: Engine) -> None:
        """Show it."""

    def remove(self, model: str) -> None:
        """Show it no more."""


class Deployment:
    """All that is served, by a registry's names."""

    def __init__(self, settings: Settings, registry: Registry, show: EngineShow) -> None:
        self._settings = settings
        self._registry = registry
        self._show = show
        self._load: LoadModel | None = None
        self._adapters: dict[str, ServedAdapter] = {}  # by the models' names with the adapters'
        self._changing = asyncio.Lock()

    def load_by(self, load: LoadModel) -> None:
        """What loads models from now on."""
        self._load = load

    async def load_model(self, model: ModelSettings) -> ServedModel:
        """Serve a model, whose settings are filled in, from now on, with its adapters.

        Raises ModelExists, ModelLoadError, and what `load_adapter` does.
        """
        async with self._changing:
            if self._registry.is_taken_for_load(model.name):
                raise ModelExists(model.name)
            assert self._load is not None  # noqa: S101  nothing is asked for before
            served = await self._load(model, self._show.observer(model.name))
            served.engine.start()
            self._registry.add(served)
            self._show.add(model.name, served.engine)
        try:
            for name, path in model.adapters.items():
                await self.load_adapter(model.name, name, Path(path))
        except BaseException:
            await self.unload_model(model.name)
            raise
        _log.info("model is ready", extra={"fields": {"model": model.name}})
        return served

    def check_name(self, name: str) -> None:
        """Raises InvalidRequest for a model's name that the caller could not use."""
        if not current_caller().may_use(name):
            raise InvalidRequest("name", f"the key may not use a model of the name {name!r}")

    async def load_allowed_model(self, entry: ModelSettings) -> ServedModel:
        """As `load_model`, for a caller: the folder must be below the setting's.

        Raises LoadingOff, and InvalidRequest for another folder, or for a name that the caller could not use then.
        """
        self.check_name(entry.name)
        if (root := self._settings.models_root) is None:
            raise LoadingOff("models", "models_root")
        folder = await asyncio.to_thread(below, root, entry.path)
        model = self._settings.filled_in(entry.model_copy(update={"path": str(folder)}), _CACHE_SHARE)
        return await self.load_model(model)

    def check_model(self, name: str) -> None:
        """Raises ModelNotFound unless a model of that very name is served, which is no adapter."""
        self._own(name)

    def check_adapter(self, model: str, name: str) -> None:
        """Raises ModelNotFound, UnsupportedTask or AdapterNotFound unless a model has that adapter."""
        self._base(model)
        if not isinstance(self._registry.find(adapted_name(model, name)), ServedGenerator):
            raise AdapterNotFound(model, name)

    async def unload_model(self, name: str) -> None:
        """Serve a model and its adapters no more, and return when its memory is free. Raises ModelNotFound."""
        async with self._changing:
            served = self._own(name)
            self._registry.remove(name)
            self._adapters = {
                full: each for full, each in self._adapters.items() if each.served.description.parent != name
            }
            await served.engine.drain(self._settings.drain_timeout_s)
            await served.close()
            self._show.remove(name)
            _log.info("model was unloaded", extra={"fields": {"model": name}})

    async def sleep(self, name: str) -> None:
        """Give a model's memory back until it is woken. Raises ModelNotFound or CannotSleep."""
        async with self._changing:
            if not (served := self._own(name)).engine.is_asleep:
                await served.engine.sleep(self._settings.drain_timeout_s)
                _log.info("model sleeps", extra={"fields": {"model": name}})

    async def wake(self, name: str) -> None:
        """Load a model that sleeps again. Raises ModelNotFound or ModelLoadError."""
        async with self._changing:
            if (served := self._own(name)).engine.is_asleep:
                await served.engine.wake()
                _log.info("model is awake", extra={"fields": {"model": name}})

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

        Raises LoadingOff, and InvalidRequest for another folder.
        """
        self._base(model)  # whoever may not use it isn't told more
        self.check_name(adapted_name(model, name))
        root = self._settings.adapters_root
        if root is None:
            raise LoadingOff("adapters", "adapters_root")
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

    def _own(self, name: str) -> ServedModel:
        """The model of that very name, which is no adapter. Raises ModelNotFound."""
        model = self._registry.find(name)
        if model is None or model.name != name or model.description.parent:
            raise ModelNotFound(name)
        return model

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
