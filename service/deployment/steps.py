"""The steps from the served state to the wanted state, each for one model or adapter.

Only the reconciler takes them, one after the other, on the event loop.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

from service.deployment.changes import Changes, LoadedAdapter, LoadedModel
from service.deployment.configured_models import ConfiguredModels
from service.deployment.deployment import Deployment
from service.deployment.residency.policy import ResidencyStep
from service.deployment.residency.residency import Residency
from service.deployment.states import State, States
from service.generation.errors import EngineError, ModelChanged, ModelLoadError
from service.registry.errors import ModelNotFound, RegistryError
from service.registry.registry import Registry
from service.settings.engine_settings import EngineSettings
from service.settings.model_settings import ModelSettings

_log = logging.getLogger(__name__)


class Steps:
    """Reconciles models and adapters, one at a time, with a target, and records their states.

    With `may_load=False` a step only unloads.
    """

    def __init__(
        self,
        deployment: Deployment,
        registry: Registry,
        engine: EngineSettings,
        residency: Residency,
        on_reload: Callable[[], None],
    ) -> None:
        """`engine` has the service's engine settings, which apply to models that are loaded without engine settings.

        `on_reload` is called when a model was reloaded without the adapters that clients have loaded.
        """
        self.configured = ConfiguredModels(())
        self.models: States[LoadedModel] = States(registry)
        self.adapters: States[LoadedAdapter] = States(registry)  # by MODEL:NAME
        self._deployment = deployment
        self._registry = registry
        self._engine = engine
        self._residency = residency
        self._on_reload = on_reload

    async def reconcile_model(self, name: str, target: Changes, *, may_load: bool = True) -> None:
        """Serve or unload one model as `target` says. Raise the errors of `Deployment`."""
        models = target.wanted_models(self.configured.names)
        is_wanted = name in models
        if name in self.models.served and (not is_wanted or self.models.served[name] != models[name]):
            if is_wanted:
                self.models.set_loading(name)
            await self._unload(name)
        elif not is_wanted and any(model.name == name for model in self._registry.loaded):
            await self._unload(name)
        if not is_wanted:
            self._residency.remove(name)
        if may_load and is_wanted and name not in self.models.served:
            await self.load(name, models[name], target)

    async def reconcile_sleep(self, name: str, target: Changes, *, may_load: bool = True) -> None:
        """Put one model to sleep or wake it as `target` says. Raise the errors of `Deployment`."""
        del may_load  # this also undoes a sleep that has not completed
        if name in target.asleep:
            self._residency.record_unloaded(name)
            await self._deployment.sleep(name)
        elif not self._residency.is_on:  # else the next request wakes it
            await self.wake(name, target)

    async def reconcile_adapter(self, full: str, target: Changes, *, may_load: bool = True) -> None:
        """Serve or unload one adapter as `target` says. Raise the errors of `Deployment`."""
        wanted = self.configured.wanted_adapters(target)
        if full in self.adapters.served and (full not in wanted or self.adapters.served[full] != wanted[full]):
            if full in wanted:
                self.adapters.set_loading(full)
            await self._unload_adapter(full)
        if may_load and full in wanted and full not in self.adapters.served:
            await self._load_adapter(full, wanted[full], target)

    async def add_adapter(self, full: str, target: Changes, *, may_load: bool = True) -> None:
        """Load an adapter that only `target` has. Raise the errors of `Deployment`; AdapterExists if it is served."""
        if may_load:
            await self._load_adapter(full, self.configured.wanted_adapters(target)[full], target)
        else:
            await self.reconcile_adapter(full, target, may_load=False)

    async def wake(self, name: str, target: Changes) -> None:
        """Wake a model, or reload it if its files have changed meanwhile."""
        try:
            await self._deployment.wake(name)
        except ModelChanged:
            await self.reload(name, target)

    async def reload(self, name: str, target: Changes) -> None:
        """Unload a served model and reload it from its current files, with a new fingerprint."""
        _log.warning("the files of a model have changed; it is reloaded", extra={"fields": {"model": name}})
        entry = target.wanted_models(self.configured.names)[name]
        self.models.set_loading(name)
        await self._unload(name)
        try:
            await self.load(name, entry, target, may_defer=False)
        except Exception as error:
            self.models.set_failed(name, str(error))
            raise
        self._on_reload()

    def _record_loaded(self, name: str, entry: LoadedModel | None, target: Changes) -> None:
        """Record that a model is served, and with a model of the settings the adapters that were loaded with it."""
        self.models.set_served(name, entry)
        if (served := self._registry.find(name)) is not None:
            is_pinned = entry is None and self.configured.model(name, target).pinned
            self._residency.add(
                name,
                served.description.weight_bytes,
                is_pinned=is_pinned,
                is_loaded=not served.engine.is_asleep,
            )
        if entry is None:
            for full, adapter in self.configured.wanted_adapters(target).items():
                if adapter is None and full.rpartition(":")[0] == name:
                    self.adapters.set_served(full, None)

    async def take(self, step: ResidencyStep, target: Changes) -> None:
        """Load or unload a model on demand. A failure is logged, and recorded for the requests that wait."""
        name = step.model
        try:
            if step.is_load:
                await self.wake(name, target)
                self._residency.record_loaded(name)
            else:
                await self._sleep_on_demand(name)
        except Exception as error:  # noqa: BLE001  the models after this one must still be loaded
            is_known = isinstance(error, EngineError | RegistryError)
            _log.error("a model can't be changed on demand: %s: %s", name, error, exc_info=None if is_known else error)
            if step.is_load:
                self._residency.record_failed(name)

    async def _make_room(self, name: str) -> None:
        """Unload models that no request uses until another one fits. Raise EngineOverloaded if there are too few."""
        while (victim := self._residency.victim_for(name)) is not None:
            await self._sleep_on_demand(victim)

    async def _sleep_on_demand(self, name: str) -> None:
        """Put a model to sleep that no request uses."""
        self._residency.record_unloaded(name)
        try:
            await self._deployment.sleep(name)
        except Exception:
            self._residency.pin(name)
            raise

    async def load(self, name: str, entry: LoadedModel | None, target: Changes, *, may_defer: bool = True) -> None:
        """Load and serve a model of the settings (without an entry) or of a client.

        A model of the settings that is not pinned is only described if models are loaded on demand, unless `may_defer`
        is False: its first request loads it. Raise the errors of `Deployment`, EngineOverloaded if there is no
        capacity, and ModelLoadError if it never fits.
        """
        configured = self.configured.model(name, target) if entry is None else None
        is_asleep = may_defer and configured is not None and self._is_deferred(configured)
        if not is_asleep:
            await self._make_room(name)
        if configured is not None:
            await self._deployment.load_model(configured, is_asleep=is_asleep)
        else:
            assert entry is not None  # noqa: S101  one of the two has the model
            await self._deployment.load_client_model(entry.to_settings(self._engine))
        self._record_loaded(name, entry, target)
        if (reason := self._residency.unfit_reason(name)) is not None:
            self._residency.remove(name)
            await self._unload(name)
            raise ModelLoadError(reason)

    def _is_deferred(self, model: ModelSettings) -> bool:
        """Return whether the first request for a model loads it."""
        return self._residency.is_on and not model.pinned and self._deployment.can_describe

    async def _load_adapter(self, full: str, entry: LoadedAdapter | None, target: Changes) -> None:
        """Load and serve an adapter of the settings (without an entry) or of a client."""
        model, _, name = full.rpartition(":")
        if entry is None:
            await self._deployment.load_adapter(model, name, self.configured.adapters(target)[full])
        else:
            await self._deployment.load_client_adapter(model, name, entry.path)
        self.adapters.set_served(full, entry)

    async def _unload(self, name: str) -> None:
        """Stop serving a model and its adapters; do nothing if it is not served."""
        for full in [full for full in self.adapters.served if full.rpartition(":")[0] == name]:
            self.adapters.remove(full)
        if self.models.state_of(name) is State.SERVED:
            self.models.remove(name)
        with contextlib.suppress(ModelNotFound):  # it was removed while the store was lost
            await self._deployment.unload_model(name)

    async def _unload_adapter(self, full: str) -> None:
        """Stop serving an adapter; do nothing if it is not served."""
        model, _, name = full.rpartition(":")
        if self.adapters.state_of(full) is State.SERVED:
            self.adapters.remove(full)
        with contextlib.suppress(RegistryError):  # it was removed while the store was lost
            await self._deployment.unload_adapter(model, name)
