"""The steps that change the served models and adapters: load, unload, put to sleep, wake.

Only the reconciler takes them, one after the other, on the event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from service.engine.interface.port import Engine, StepObserver
from service.engine.interface.running_load import LoadCancelled, running_load
from service.engine.models.checkpoint.adapter_files import read_adapter
from service.generation.adapter import AdapterLoaded
from service.generation.caller import ANONYMOUS
from service.generation.errors import InvalidRequest
from service.registry.errors import AdapterExists, AdapterNotFound, LoadingOff, ModelExists
from service.registry.models import ServedGenerator, ServedModel, adapted_name
from service.registry.registry import Registry
from service.settings.config import Settings
from service.settings.model_settings import ModelSettings

LoadModel: TypeAlias = Callable[[ModelSettings, StepObserver], Awaitable[ServedModel]]

_CACHE_SHARE: Final = 0.5  # default share of the free cache memory for a model loaded by a client

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServedAdapter:
    """An adapter, and the model that serves requests for it."""

    served: ServedGenerator
    folder: Path
    loaded: AdapterLoaded


class EngineMonitor(Protocol):
    """Exports the metrics of engines."""

    def observer(self, model: str) -> StepObserver:
        """Return the observer of the steps of a model's engine."""

    def add(self, model: str, engine: Engine) -> None:
        """Start exporting the engine's metrics."""

    def remove(self, model: str) -> None:
        """Stop exporting the engine's metrics."""


class Deployment:
    """Adds models and adapters to a registry and removes them, with their engines."""

    def __init__(self, settings: Settings, registry: Registry, monitor: EngineMonitor) -> None:
        self._settings = settings
        self._registry = registry
        self._visible = registry.visible_to(ANONYMOUS)  # the reconciler may use everything
        self._monitor = monitor
        self._load: LoadModel | None = None
        self._describe: LoadModel | None = None
        self._adapters: dict[str, ServedAdapter] = {}  # by MODEL:NAME

    def load_by(self, load: LoadModel, describe: LoadModel | None = None) -> None:
        """Load models by `load` from now on.

        `describe` returns a model that sleeps and whose weights were never loaded; its first wake loads them.
        """
        self._load, self._describe = load, describe

    @property
    def can_describe(self) -> bool:
        """Whether models can be served before they are loaded."""
        return self._describe is not None

    async def load_model(self, model: ModelSettings, *, is_asleep: bool = False) -> ServedModel:
        """Load and serve a model, whose settings are filled in, with its adapters.

        With `is_asleep`, which needs `can_describe`, its first wake loads the weights. Raise ModelExists,
        ModelLoadError, LoadCancelled, and what `load_adapter` raises.
        """
        if self._registry.is_taken_for_load(model.name):
            raise ModelExists(model.name)
        load = self._describe if is_asleep else self._load
        assert load is not None  # noqa: S101  it is set before the first load
        served = await load(model, self._monitor.observer(model.name))
        served.engine.start()
        try:
            running_load().commit()
        except LoadCancelled:
            await served.close()
            raise
        self._registry.add(served)
        self._monitor.add(model.name, served.engine)
        try:
            for name, path in model.adapters.items():
                if is_asleep:
                    await self._describe_adapter(model, name, Path(path))
                else:
                    await self.load_adapter(model.name, name, Path(path))
        except BaseException:
            await self.unload_model(model.name)
            raise
        _log.info(
            "model is loaded on demand" if is_asleep else "model is ready", extra={"fields": {"model": model.name}}
        )
        return served

    async def load_client_model(self, model: ModelSettings) -> ServedModel:
        """Load and serve a model that a client requested, from a folder below `models_root`.

        Raise the errors of `load_model`, LoadingOff, and InvalidRequest for another folder.
        """
        folder = await self.client_folder(model.path)
        return await self.load_model(
            self._settings.filled_in(model.model_copy(update={"path": str(folder)}), _CACHE_SHARE)
        )

    async def client_folder(self, path: str) -> Path:
        """Return the folder of a model that a client requested. Raise LoadingOff or InvalidRequest."""
        if (root := self._settings.models_root) is None:
            raise LoadingOff("models", "models_root")
        return await asyncio.to_thread(below, root, path)

    async def unload_model(self, name: str) -> None:
        """Stop serving a model and its adapters, and return when its memory is free. Raise ModelNotFound."""
        served = self._visible.own(name)
        self._registry.remove(name)
        self._adapters = {full: each for full, each in self._adapters.items() if each.served.description.parent != name}
        await served.engine.drain(self._settings.drain_timeout_s)
        await served.close()
        self._monitor.remove(name)
        _log.info("model was unloaded", extra={"fields": {"model": name}})

    async def sleep(self, name: str) -> None:
        """Free a model's memory until it is woken. Raise ModelNotFound or CannotSleep."""
        if not (served := self._visible.own(name)).engine.is_asleep:
            await served.engine.sleep(self._settings.drain_timeout_s)
            _log.info("model sleeps", extra={"fields": {"model": name}})

    async def wake(self, name: str) -> None:
        """Load a sleeping model again. Raise ModelNotFound, ModelLoadError or LoadCancelled; it then sleeps."""
        if (served := self._visible.own(name)).engine.is_asleep:
            await served.engine.wake()
            try:
                running_load().commit()
            except LoadCancelled:
                await served.engine.sleep(self._settings.drain_timeout_s)
                raise
            if isinstance(served, ServedGenerator) and served.engine.max_model_len != served.description.max_model_len:
                # It was described before its first load, which has chosen the size of its cache.
                self._set_length(served, served.engine.max_model_len)
            _log.info("model is awake", extra={"fields": {"model": name}})

    def _set_length(self, served: ServedGenerator, max_model_len: int) -> None:
        """Change the maximum length of a model and its adapters."""
        self._registry.add(served.with_length(max_model_len))
        for full, adapter in self._adapters.items():
            if adapter.served.description.parent == served.name:
                changed = self._adapters[full] = replace(adapter, served=adapter.served.with_length(max_model_len))
                self._registry.add(changed.served)

    async def load_adapter(self, model: str, name: str, folder: Path) -> None:
        """Load and serve an adapter of a model from a folder.

        Raise ModelNotFound, UnsupportedTask, AdapterExists, AdapterRejected, TooManyAdapters, and engine errors.
        """
        served = self._visible.base(model)
        if self._registry.is_taken_for_adapter(served.name, name):
            raise AdapterExists(name)
        self._serve_adapter(served, name, folder, await served.engine.load_adapter(name, folder))

    async def _describe_adapter(self, model: ModelSettings, name: str, folder: Path) -> None:
        """Serve an adapter of a model that is not loaded; the model's first wake loads it.

        Raise AdapterExists, AdapterRejected or TooManyAdapters.
        """
        served = self._visible.base(model.name)
        if self._registry.is_taken_for_adapter(served.name, name):
            raise AdapterExists(name)
        assert model.engine is not None  # noqa: S101  the settings are filled in
        described = (await asyncio.to_thread(read_adapter, folder, model.engine.max_adapter_rank)).description
        served.engine.add_unloaded_adapter(name, folder, described.digest)
        self._serve_adapter(served, name, folder, described)

    def _serve_adapter(self, served: ServedGenerator, name: str, folder: Path, loaded: AdapterLoaded) -> None:
        """Add an adapter to the registry."""
        adapter = ServedAdapter(served.adapted(name, _fingerprint(served, loaded), loaded.digest), folder, loaded)
        self._adapters[adapter.served.name] = adapter
        self._registry.add(adapter.served)
        _log.info("adapter is ready", extra={"fields": {"model": adapter.served.name, "rank": loaded.rank}})

    async def load_client_adapter(self, model: str, name: str, path: str) -> None:
        """Load and serve an adapter that a client requested, from a folder below `adapters_root`.

        Raise the errors of `load_adapter`, LoadingOff, and InvalidRequest for another folder.
        """
        if (root := self._settings.adapters_root) is None:
            raise LoadingOff("adapters", "adapters_root")
        await self.load_adapter(model, name, await asyncio.to_thread(below, root, path))

    async def unload_adapter(self, model: str, name: str) -> None:
        """Stop serving an adapter, and return when its memory is free. Raise ModelNotFound or AdapterNotFound."""
        served = self._visible.base(model)
        adapter = self._registry.find(adapted_name(model, name))
        if not isinstance(adapter, ServedGenerator):
            raise AdapterNotFound(model, name)
        self._registry.remove(adapter.name)
        del self._adapters[adapter.name]
        await served.engine.drop_adapter(name, self._settings.drain_timeout_s)
        _log.info("adapter was unloaded", extra={"fields": {"model": adapter.name}})

    def adapter(self, full_name: str) -> ServedAdapter:
        """Return the served adapter MODEL:NAME."""
        return self._adapters[full_name]


def below(root: Path, path: str) -> Path:
    """Return the folder of a client's path. Raise InvalidRequest unless it is below `root`, links followed."""
    try:
        folder = (root / path).resolve()
        is_allowed = folder.is_relative_to(root.resolve()) and folder.is_dir()
    except (OSError, ValueError, RuntimeError):  # too long, a loop of links, a zero byte
        is_allowed = False
    if not is_allowed:
        raise InvalidRequest("path", "it must be a folder below the one that the service's settings allow")
    return folder


def _fingerprint(served: ServedGenerator, loaded: AdapterLoaded) -> str:
    """Return the fingerprint of a model with an adapter."""
    described = f"{served.description.fingerprint}\0{loaded.digest}"
    return hashlib.sha256(described.encode()).hexdigest()[:12]
