"""Keep all replicas of a pool alike: a change made at one of them is made at all.

Without a store there is one replica, and its changes last to its end. With one, a change is made here first, or, where
it takes something away, in the store first; so what can't be loaded here is told to nobody. It belongs to the event
loop. Changes go one after the other, those of others among them; what is to come is known, and refused as such, as soon
as the store says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from service.deployment.attempts import Attempts
from service.deployment.change_store import ChangeStore
from service.deployment.changes import Changes, LoadedAdapter, LoadedModel
from service.deployment.configured_models import ConfiguredModels
from service.deployment.deployment import Deployment, ServedAdapter
from service.deployment.wanted_changes import LOOK_S, WantedChanges
from service.generation.errors import InvalidRequest
from service.registry.errors import ModelNotFound, RegistryError
from service.registry.models import Registry, ServedModel, adapted_name
from service.settings.engine_settings import EngineSettings
from service.settings.model_settings import ModelSettings
from service.storage.shared_text import SharedTextLost

_Result = TypeVar("_Result")
_COMING = "it is being loaded"

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
        self._wanted = WantedChanges(store, self._on_newer)
        self._models: dict[str, LoadedModel | None] = {}  # that are served here; None: as the settings have it
        self._adapters: dict[str, LoadedAdapter | None] = {}  # likewise, as MODEL:NAME
        self._configured = ConfiguredModels(())
        self._attempts = Attempts()
        self._changing = asyncio.Lock()
        self._catching_up: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def to_its_end(self, change: Coroutine[Any, Any, _Result]) -> _Result:
        """Wait for a change, which goes on if its caller leaves: half of one would leave things that nobody knows."""
        return await asyncio.shield(self._begun(change))

    def _begun(self, change: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
        task = asyncio.create_task(change)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def adapters(self, model: str = "") -> Sequence[ServedAdapter]:
        """As `Deployment.adapters`."""
        return self._deployment.adapters(model)

    async def begin(self, configured: Sequence[ModelSettings]) -> Sequence[ModelSettings]:
        """Read the store; those of the settings' models that are to be loaded. Raises OSError, or SharedTextLost."""
        self._configured = ConfiguredModels(configured)
        await self._wanted.read()
        to_load = self._configured.wanted(self._wanted.newest)
        # What sleeps has given its memory back before others take theirs.
        return sorted(to_load, key=lambda model: model.name not in self._wanted.newest.asleep)

    def unloaded(self) -> Collection[str]:
        """The names of the settings' models that callers have unloaded."""
        return self._configured.unloaded(self._wanted.newest)

    async def sleep_if_wanted(self, name: str) -> None:
        """Put a model to sleep that was loaded and is to sleep; what keeps it from that is logged."""
        if name in self._wanted.newest.asleep and any(model.name == name for model in self._registry.loaded):
            await self._attempts.make(f"{name}'s sleep", lambda: self._deployment.sleep(name))

    async def catch_up(self) -> None:
        """Bring about what the store says, of all but what can't be done here."""
        async with self._changing:
            for model in self._registry.loaded:
                self._models.setdefault(model.name, None)
            for adapter in self._registry.adapters():
                self._adapters.setdefault(adapter.name, None)
            self._attempts.have_failed(self._registry.failed)
            await self._bring_about()

    async def follow(self, on_loss: Callable[[bool], Awaitable[None]], look_s: float = LOOK_S) -> None:
        """Keep up with what others change, until cancelled. `on_loss` is told whether the store is lost, by change."""
        is_lost = False
        while self._wanted.is_shared:
            await asyncio.sleep(look_s)
            try:
                reason = await self._look()
                if bool(reason) is not is_lost:
                    is_lost = bool(reason)
                    await on_loss(is_lost)
                    if is_lost:
                        text = "the models' store is lost; what is served stays, and can't be changed until it is back"
                        _log.warning(text, extra={"fields": {"reason": reason}})
                    else:
                        _log.info("the models' store is back")
            except Exception:  # noqa: BLE001  a replica that follows no more would never be noticed
                _log.exception("the models' store could not be looked at")
            if self._catching_up is None or self._catching_up.done():  # a load takes minutes; the store is looked at
                self._catching_up = self._begun(self._follow_up())

    async def _look(self) -> str:
        """Why the store is lost, if it is."""
        try:
            await self._wanted.look()
        except (OSError, SharedTextLost) as error:
            return str(error)
        return ""

    async def _follow_up(self) -> None:
        async with self._changing:
            try:
                await self._bring_about()
            except Exception:  # noqa: BLE001  likewise
                _log.exception("other replicas' changes could not be made here")

    async def load_model(self, entry: LoadedModel) -> ServedModel:
        """Serve a model from now on. Raises as `Deployment.load_allowed_model`, and ChangesUnavailable."""
        self._deployment.check_name(entry.name)
        async with self._changing:
            await self._wanted.refresh()
            names = self._configured.names
            own = self._configured.gone_model(entry, self._wanted.newest)
            change = partial(Changes.with_own_model, name=entry.name, configured=names)
            if own is None:
                change = partial(Changes.with_model, model=entry, configured=names)
            change(self._wanted.newest)  # refused before minutes are spent
            if own is not None:
                served = await self._deployment.load_model(own)
            else:
                try:
                    settings = entry.to_settings(self._engine)
                except ValueError as error:
                    raise InvalidRequest("name", str(error)) from error
                served = await self._deployment.load_allowed_model(settings)
            try:
                await self._wanted.keep(change)
            except BaseException:
                await self._deployment.unload_model(entry.name)
                raise
            self._has_model(entry.name, entry if own is None else None)
        await self._until_known()
        return served

    async def unload_model(self, name: str) -> None:
        """Serve a model and its adapters no more. Raises ModelNotFound, and ChangesUnavailable."""
        async with self._changing:
            await self._wanted.refresh()
            is_failed = name in self._registry.failed and self._wanted.is_shared
            if not is_failed:
                self._deployment.check_model(name)
            await self._wanted.keep(lambda changes: changes.without_model(name, self._configured.names))
            if is_failed:
                self._registry.forget(name)
            else:
                await self._unload(name)

    async def sleep(self, name: str) -> None:
        """Give a model's memory back until it is woken. Raises ModelNotFound, CannotSleep, and ChangesUnavailable."""
        async with self._changing:
            await self._wanted.refresh()
            await self._deployment.sleep(name)
            await self._wanted.keep(lambda changes: changes.with_sleep(name, is_asleep=True))

    async def wake(self, name: str) -> None:
        """Load a model that sleeps again. Raises ModelNotFound, ModelLoadError, and ChangesUnavailable."""
        async with self._changing:
            await self._wanted.refresh()
            await self._deployment.wake(name)
            await self._wanted.keep(lambda changes: changes.with_sleep(name, is_asleep=False))
        await self._until_known()

    async def load_adapter(self, entry: LoadedAdapter) -> ServedAdapter:
        """Serve an adapter from now on. Raises as `Deployment.load_allowed_adapter`, and ChangesUnavailable."""
        async with self._changing:
            await self._wanted.refresh()
            own = self._configured.gone_adapter(entry, self._wanted.newest)
            change = partial(Changes.with_own_adapter, model=entry.model, name=entry.name)
            if own is None:
                change = partial(Changes.with_adapter, adapter=entry)
            change(self._wanted.newest)
            if own is None:
                adapter = await self._deployment.load_allowed_adapter(entry.model, entry.name, entry.path)
            else:
                self._deployment.check_name(adapted_name(entry.model, entry.name))
                adapter = await self._deployment.load_adapter(entry.model, entry.name, own)
            try:
                await self._wanted.keep(change)
            except BaseException:
                await self._deployment.unload_adapter(entry.model, entry.name)
                raise
            self._adapters[adapter.served.name] = entry if own is None else None
        await self._until_known()
        return adapter

    async def unload_adapter(self, model: str, name: str) -> None:
        """Serve an adapter no more. Raises ModelNotFound or AdapterNotFound, and ChangesUnavailable."""
        async with self._changing:
            await self._wanted.refresh()
            full = adapted_name(model, name)
            is_failed = full in self._registry.failed
            if not is_failed:
                self._deployment.check_adapter(model, name)
            await self._wanted.keep(
                lambda changes: changes.without_adapter(model, name, self._configured.adapters(changes))
            )
            if is_failed:
                self._registry.forget(full)
            else:
                await self._deployment.unload_adapter(model, name)
                self._adapters.pop(full, None)

    async def _until_known(self) -> None:
        """Until the other replicas have looked, and refuse requests for what they have yet to load."""
        if self._wanted.is_shared:
            await asyncio.sleep(2 * LOOK_S)

    def _on_newer(self) -> None:
        self._attempts.all_are_due()
        self._note_coming()

    def _note_coming(self) -> None:
        """Refuse requests for all that is wanted and isn't here yet, so that they are tried at another replica."""
        wanted = dict.fromkeys((*self._wanted_models(), *self._wanted_adapters()))
        known = self._registry.loads
        for name in [name for name, is_loaded in known.items() if not is_loaded and name not in wanted]:
            self._registry.forget(name)
        for name in [name for name in wanted if name not in known]:
            self._registry.leave_out(name, _COMING, is_coming=True)

    def _wanted_models(self) -> Mapping[str, LoadedModel | None]:
        return self._wanted.newest.wanted_models(self._configured.names)

    def _wanted_adapters(self) -> Mapping[str, LoadedAdapter | None]:
        changes = self._wanted.newest
        own = {full: None for full in self._configured.adapters(changes) if full not in changes.unloaded}
        return own | {adapted_name(each.model, each.name): each for each in changes.adapters}

    async def _bring_about(self) -> None:
        """Change what is served here into what is wanted; what gives memory back comes before what takes it."""
        self._note_coming()
        models = self._wanted_models()
        for name in [name for name, entry in self._models.items() if models.get(name, "") != entry]:
            if name in models:
                self._registry.leave_out(name, _COMING, is_coming=True)
            await self._unload(name)
        for model in self._registry.loaded:
            await self.sleep_if_wanted(model.name)
        asleep = self._wanted.newest.asleep
        for name, entry in sorted(models.items(), key=lambda item: item[0] not in asleep):
            if name not in self._models and self._wanted_models().get(name, "") == entry:  # loads before it took long
                await self._attempts.make(name, partial(self._load, name, entry))
                await self.sleep_if_wanted(name)
        for model in self._registry.loaded:
            if model.engine.is_asleep and model.name not in self._wanted.newest.asleep:
                await self._attempts.make(f"{model.name}'s sleep", partial(self._deployment.wake, model.name))
        await self._bring_adapters_about()

    async def _bring_adapters_about(self) -> None:
        wanted = self._wanted_adapters()
        for full in [full for full, entry in self._adapters.items() if wanted.get(full, "") != entry]:
            if full in wanted:
                self._registry.leave_out(full, _COMING, is_coming=True)
            await self._attempts.make(f"{full}'s unload", partial(self._unload_adapter, full))
        for full, entry in wanted.items():
            if full in self._adapters or self._wanted_adapters().get(full, "") != entry:
                continue
            if full.rpartition(":")[0] not in self._models:
                self._registry.leave_out(full, "its model is not loaded")
            else:
                await self._attempts.make(full, partial(self._load_adapter, full, entry))

    async def _load(self, name: str, entry: LoadedModel | None) -> None:
        self._registry.leave_out(name, _COMING, is_coming=True)
        try:
            if entry is None:
                (settings,) = [each for each in self._configured.wanted(self._wanted.newest) if each.name == name]
                await self._deployment.load_model(settings)
            else:
                await self._deployment.load_allowed_model(entry.to_settings(self._engine))
        except Exception as error:
            self._registry.leave_out(name, str(error))
            raise
        self._has_model(name, entry)

    def _has_model(self, name: str, entry: LoadedModel | None) -> None:
        self._models[name] = entry
        if entry is None:  # the registry would leave out what is kept from the caller
            own = [full for full, each in self._wanted_adapters().items() if each is None]
            self._adapters |= dict.fromkeys(full for full in own if full.rpartition(":")[0] == name)

    async def _load_adapter(self, full: str, entry: LoadedAdapter | None) -> None:
        self._registry.leave_out(full, _COMING, is_coming=True)
        model, _, name = full.rpartition(":")
        try:
            if entry is None:
                folder = self._configured.adapters(self._wanted.newest)[full]
                await self._deployment.load_adapter(model, name, folder)
            else:
                await self._deployment.load_allowed_adapter(model, name, entry.path)
        except Exception as error:
            self._registry.leave_out(full, str(error))
            raise
        self._adapters[full] = entry

    async def _unload(self, name: str) -> None:
        self._models.pop(name, None)
        self._adapters = {full: each for full, each in self._adapters.items() if full.rpartition(":")[0] != name}
        with contextlib.suppress(ModelNotFound):  # it went while the store was away
            await self._deployment.unload_model(name)

    async def _unload_adapter(self, full: str) -> None:
        model, _, name = full.rpartition(":")
        with contextlib.suppress(RegistryError):  # it went while the store was away
            await self._deployment.unload_adapter(model, name)
        self._adapters.pop(full, None)
