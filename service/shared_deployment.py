"""What all replicas of a pool serve alike: changes that callers of one of them make, the others make, too.

Without a store there is one replica, and its changes last to its end. With one, a change is made here first, or, where
it takes something away, in the store first; so what can't be loaded here is told to nobody. It belongs to the event
loop. Changes go one after the other, those of others among them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from service.change_store import ChangeStore
from service.changes import Changes, LoadedAdapter, LoadedModel
from service.deployment import Deployment, ServedAdapter
from service.engine_settings import EngineSettings
from service.generation.errors import (
    AdapterRefused,
    CannotSleep,
    EngineAsleep,
    InvalidRequest,
    ModelLoadError,
    TooManyAdapters,
    UnsupportedTask,
)
from service.model_settings import ModelSettings
from service.registry.errors import ChangesUnavailable, ModelNotFound, RegistryError
from service.registry.models import Registry, ServedModel, adapted_name
from service.shared_text import Outdated, SharedTextLost

_Result = TypeVar("_Result")
_LOOK_S = 1.0  # how often the store is asked for what others have changed
_RETRY_S = 60.0  # after which what could not be done is tried again
_MAX_TRIES = 8  # of a change that others have come before
_IMPOSSIBLE = (
    AdapterRefused,
    CannotSleep,
    EngineAsleep,
    InvalidRequest,
    ModelLoadError,
    RegistryError,
    TooManyAdapters,
    UnsupportedTask,
)

_log = logging.getLogger(__name__)


class SharedDeployment:
    """A deployment whose changes are kept in a store."""

    def __init__(
        self, deployment: Deployment, registry: Registry, engine: EngineSettings, store: ChangeStore | None = None
    ) -> None:
        """`engine` has the service's own sizes, for models that are loaded with few of their own."""
        self._deployment = deployment
        self._registry = registry
        self._engine = engine
        self._store = store
        self._wanted = Changes()
        self._models: dict[str, LoadedModel | None] = {}  # that are served here; None: as the settings have it
        self._adapters: dict[str, LoadedAdapter | None] = {}  # likewise, as MODEL:NAME
        self._configured: Sequence[ModelSettings] = ()
        self._retry_at: dict[str, float] = {}  # of what could not be done here
        self._changing = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def to_its_end(self, change: Coroutine[Any, Any, _Result]) -> _Result:
        """Wait for a change, which goes on if its caller leaves: half of one would leave things that nobody knows."""
        task = asyncio.create_task(change)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    def adapters(self, model: str = "") -> Sequence[ServedAdapter]:
        """As `Deployment.adapters`."""
        return self._deployment.adapters(model)

    async def begin(self, configured: Sequence[ModelSettings]) -> Sequence[ModelSettings]:
        """Read the store; those of the settings' models that are to be loaded. Raises OSError, or SharedTextLost."""
        self._configured = configured
        if self._store is not None:
            self._wanted = await asyncio.to_thread(self._store.read)
        wanted = self._wanted.wanted_models(model.name for model in configured)
        return [model for model in configured if wanted.get(model.name, model) is None]

    async def catch_up(self) -> None:
        """Bring about what the store says, of all but what can't be done here."""
        async with self._changing:
            for model in self._registry.loaded:
                self._models.setdefault(model.name, None)
            for adapter in self._registry.adapters():
                self._adapters.setdefault(adapter.name, None)
            self._retry_at = dict.fromkeys(self._registry.failed, time.monotonic() + _RETRY_S)
            await self._bring_about()

    async def follow(self, on_loss: Callable[[bool], Awaitable[None]], look_s: float = _LOOK_S) -> None:
        """Keep up with what others change, until cancelled. `on_loss` is told whether the store is lost, by change."""
        is_lost = False
        while self._store is not None:
            await asyncio.sleep(look_s)
            async with self._changing:
                try:
                    if await asyncio.to_thread(self._store.is_newer):
                        self._wanted = await asyncio.to_thread(self._store.read)
                        self._retry_at.clear()
                    reason = ""
                except (OSError, SharedTextLost) as error:
                    reason = str(error)
                if bool(reason) is not is_lost:
                    is_lost = bool(reason)
                    if is_lost:
                        text = "the models' store is lost; what is served stays, and can't be changed until it is back"
                        _log.warning(text, extra={"fields": {"reason": reason}})
                    else:
                        _log.info("the models' store is back")
                    await on_loss(is_lost)
                await self.to_its_end(self._bring_about())

    async def load_model(self, entry: LoadedModel) -> ServedModel:
        """Serve a model from now on. Raises as `Deployment.load_allowed_model`, and ChangesUnavailable."""
        async with self._changing:
            await self._refresh()
            self._wanted.with_model(entry)  # refused before minutes are spent
            try:
                settings = entry.to_settings(self._engine)
            except ValueError as error:
                raise InvalidRequest("name", str(error)) from error
            served = await self._deployment.load_allowed_model(settings)
            try:
                await self._keep(lambda changes: changes.with_model(entry))
            except BaseException:
                await self._deployment.unload_model(entry.name)
                raise
            self._models[entry.name] = entry
        await self._until_known()
        return served

    async def unload_model(self, name: str) -> None:
        """Serve a model and its adapters no more. Raises ModelNotFound, and ChangesUnavailable."""
        async with self._changing:
            await self._refresh()
            is_failed = name in self._registry.failed and self._store is not None
            if not is_failed:
                self._deployment.check_model(name)
            await self._keep(lambda changes: changes.without_model(name, self._own_models()))
            if is_failed:
                self._registry.forget(name)
            else:
                await self._unload(name)

    async def sleep(self, name: str) -> None:
        """Give a model's memory back until it is woken. Raises ModelNotFound, CannotSleep, and ChangesUnavailable."""
        async with self._changing:
            await self._refresh()
            await self._deployment.sleep(name)
            await self._keep(lambda changes: changes.with_sleep(name, is_asleep=True))

    async def wake(self, name: str) -> None:
        """Load a model that sleeps again. Raises ModelNotFound, ModelLoadError, and ChangesUnavailable."""
        async with self._changing:
            await self._refresh()
            await self._deployment.wake(name)
            await self._keep(lambda changes: changes.with_sleep(name, is_asleep=False))
        await self._until_known()

    async def load_adapter(self, entry: LoadedAdapter) -> ServedAdapter:
        """Serve an adapter from now on. Raises as `Deployment.load_allowed_adapter`, and ChangesUnavailable."""
        async with self._changing:
            await self._refresh()
            self._wanted.with_adapter(entry)
            adapter = await self._deployment.load_allowed_adapter(entry.model, entry.name, entry.path)
            try:
                await self._keep(lambda changes: changes.with_adapter(entry))
            except BaseException:
                await self._deployment.unload_adapter(entry.model, entry.name)
                raise
            self._adapters[adapter.served.name] = entry
        await self._until_known()
        return adapter

    async def unload_adapter(self, model: str, name: str) -> None:
        """Serve an adapter no more. Raises ModelNotFound or AdapterNotFound, and ChangesUnavailable."""
        async with self._changing:
            await self._refresh()
            full = adapted_name(model, name)
            is_failed = full in self._registry.failed
            if not is_failed:
                self._deployment.check_adapter(model, name)
            await self._keep(lambda changes: changes.without_adapter(model, name, self._own_adapters()))
            if is_failed:
                self._registry.forget(full)
            else:
                await self._deployment.unload_adapter(model, name)
                self._adapters.pop(full, None)

    def _own_models(self) -> Sequence[str]:
        return [model.name for model in self._configured]

    def _own_adapters(self) -> Sequence[str]:
        """Those of the settings' models that the settings' models have still."""
        wanted = self._wanted.wanted_models(self._own_models())
        return [
            adapted_name(model.name, name)
            for model in self._configured
            if wanted.get(model.name, "") is None
            for name in model.adapters
        ]

    async def _refresh(self) -> None:
        """Know the newest of the store. Raises ChangesUnavailable."""
        if self._store is not None:
            try:
                if await asyncio.to_thread(self._store.is_newer):
                    self._wanted = await asyncio.to_thread(self._store.read)
            except (OSError, SharedTextLost) as error:
                raise ChangesUnavailable(_LOOK_S) from error

    async def _keep(self, change: Callable[[Changes], Changes]) -> None:
        """Make a change of the newest that the store has. Raises ChangesUnavailable, and what `change` raises."""
        for _ in range(_MAX_TRIES):
            wanted = change(self._wanted)
            try:
                if self._store is not None and wanted != self._wanted:
                    await asyncio.to_thread(self._store.write, wanted)
            except Outdated:
                await self._refresh()
            except (OSError, SharedTextLost) as error:
                raise ChangesUnavailable(_LOOK_S) from error
            else:
                self._wanted = wanted
                return
        raise ChangesUnavailable(_LOOK_S)

    async def _until_known(self) -> None:
        """Until the other replicas have looked, and begun to load what they refuse requests for meanwhile."""
        if self._store is not None:
            await asyncio.sleep(2 * _LOOK_S)

    async def _bring_about(self) -> None:
        """Change what is served here into what is wanted."""
        models = self._wanted.wanted_models(self._own_models())
        for name in [name for name, entry in self._models.items() if models.get(name, "") != entry]:
            await self._unload(name)
        known = {*models, *(adapted_name(each.model, each.name) for each in self._wanted.adapters)}
        for name in [name for name in self._registry.failed if name not in known]:
            self._registry.forget(name)
        for name, entry in models.items():
            if name not in self._models:
                await self._try(name, lambda name=name, entry=entry: self._load(name, entry))  # type: ignore[misc]
        for model in self._registry.loaded:
            if model.engine.is_asleep is not (is_asleep := model.name in self._wanted.asleep):
                change = self._deployment.sleep if is_asleep else self._deployment.wake
                await self._try(f"{model.name}'s sleep", lambda name=model.name, change=change: change(name))  # type: ignore[misc]
        await self._bring_adapters_about()

    async def _bring_adapters_about(self) -> None:
        wanted: dict[str, LoadedAdapter | None] = {
            name: None for name in self._own_adapters() if name not in self._wanted.unloaded
        }
        wanted |= {adapted_name(each.model, each.name): each for each in self._wanted.adapters}
        for full in [full for full, entry in self._adapters.items() if wanted.get(full, "") != entry]:
            model, _, name = full.rpartition(":")
            del self._adapters[full]
            with contextlib.suppress(RegistryError):  # it went while the store was away
                await self._deployment.unload_adapter(model, name)
        for full, entry in wanted.items():
            if entry is not None and full not in self._adapters and entry.model in self._models:
                await self._try(full, lambda full=full, entry=entry: self._load_adapter(full, entry))  # type: ignore[misc]

    async def _load(self, name: str, entry: LoadedModel | None) -> None:
        self._registry.leave_out(name, "it is being loaded", is_coming=True)
        try:
            if entry is None:
                (settings,) = [model for model in self._configured if model.name == name]
                await self._deployment.load_model(settings)
            else:
                await self._deployment.load_allowed_model(entry.to_settings(self._engine))
        except (*_IMPOSSIBLE, ValueError) as error:
            self._registry.leave_out(name, str(error))
            raise
        self._models[name] = entry

    async def _load_adapter(self, full: str, entry: LoadedAdapter) -> None:
        self._registry.leave_out(full, "it is being loaded", is_coming=True)
        try:
            await self._deployment.load_allowed_adapter(entry.model, entry.name, entry.path)
        except _IMPOSSIBLE as error:
            self._registry.leave_out(full, str(error))
            raise
        self._registry.forget(full)
        self._adapters[full] = entry

    async def _unload(self, name: str) -> None:
        self._models.pop(name, None)
        self._adapters = {full: each for full, each in self._adapters.items() if full.rpartition(":")[0] != name}
        with contextlib.suppress(ModelNotFound):  # it went while the store was away
            await self._deployment.unload_model(name)

    async def _try(self, what: str, change: Callable[[], Awaitable[None]]) -> None:
        """Do what may not be possible here, and say so once a minute."""
        if time.monotonic() < self._retry_at.get(what, 0.0):
            return
        try:
            await change()
            self._retry_at.pop(what, None)
        except (*_IMPOSSIBLE, ValueError) as error:
            self._retry_at[what] = time.monotonic() + _RETRY_S
            _log.error("other replicas' change can't be made here: %s: %s", what, error)
