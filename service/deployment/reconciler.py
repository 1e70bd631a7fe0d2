"""The reconciler: the only place that changes which models and adapters this replica serves.

It compares what is served (`States`) with what is wanted (`WantedState`), and takes the steps in between, one by one.
Clients' changes are proposals to it. A change that adds something is applied here before it is stored, and undone if
that fails, so that other replicas never see a model that can't be loaded; a change that removes something is stored
first. Other replicas' changes are applied in passes, which free memory before they use it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from service.deployment.attempts import RETRY_S, Attempts
from service.deployment.changes import Changes, LoadedAdapter, LoadedModel
from service.deployment.configured_models import ConfiguredModels
from service.deployment.deployment import Deployment
from service.deployment.proposal import Proposal
from service.deployment.states import State, States
from service.deployment.wanted_state import LOOK_S, WantedState
from service.generation.errors import ModelChanged
from service.registry.errors import ChangesUnavailable, ModelNotFound, RegistryError
from service.registry.registry import Registry
from service.settings.engine_settings import EngineSettings
from service.settings.model_settings import ModelSettings
from service.storage.document import DocumentStore
from service.storage.shared_text import Outdated, SharedTextLost

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)


class Reconciler:
    """Makes a replica serve what is wanted. `begin`, `load` of each model, `start`, `run` until cancelled."""

    def __init__(
        self,
        deployment: Deployment,
        registry: Registry,
        engine: EngineSettings,
        store: DocumentStore[Changes],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`engine` has the service's engine settings, which apply to models loaded with none of their own."""
        self.wanted = WantedState("models", store, Changes(), self._expect, records_looks=True)
        self._deployment = deployment
        self._registry = registry
        self._engine = engine
        self._configured = ConfiguredModels(())
        self._models: States[LoadedModel] = States(registry)
        self._adapters: States[LoadedAdapter] = States(registry)  # by MODEL:NAME
        self._attempts = Attempts(clock)
        self._proposals: deque[Proposal[Any]] = deque()
        self._is_pass_due = False
        self._to_reload: list[str] = []
        self._has_work = asyncio.Event()

    @property
    def configured(self) -> ConfiguredModels:
        """The models of the settings."""
        return self._configured

    @property
    def unloaded(self) -> Collection[str]:
        """The models and adapters of the settings that clients have unloaded."""
        return self._configured.unloaded(self.wanted.newest)

    async def begin(self, configured: Sequence[ModelSettings]) -> Sequence[ModelSettings]:
        """Read the wanted state, and return the configured models to load. Raise OSError or SharedTextLost."""
        self._configured = ConfiguredModels(configured)
        await self.wanted.read()
        to_load = self._configured.wanted(self.wanted.newest)
        # A sleeping model frees its memory before the next one is loaded.
        return sorted(to_load, key=lambda model: model.name not in self.wanted.newest.asleep)

    async def load(self, model: ModelSettings) -> None:
        """Load and serve a configured model at the start. Raise the errors of `Deployment.load_model`."""
        self._models.loading(model.name)
        try:
            await self._deployment.load_model(model)
        except Exception as error:
            self._models.failed(model.name, str(error))
            raise
        self._has_loaded(model.name, None, self.wanted.newest)
        await self._attempts.make(_sleep_of(model.name), partial(self.bring_sleep, model.name, self.wanted.newest))

    async def start(self) -> None:
        """Apply the wanted state after the configured models were loaded. Failures are logged and retried."""
        self._attempts.have_failed(self._models.all_failed)
        await self._pass()

    async def run(self) -> None:
        """Apply proposals and other replicas' changes, in order, until cancelled."""
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            while self._proposals:
                await self._settle(self._proposals.popleft())
            while self._to_reload:
                await self._reload_later(self._to_reload[0])
                self._to_reload.pop(0)
            if self._is_pass_due:
                self._is_pass_due = False
                try:
                    await self._pass()
                except Exception:  # noqa: BLE001  a replica that stopped following would not be noticed
                    _log.exception("other replicas' changes could not be applied")

    def request_pass(self) -> None:
        """Apply other replicas' changes, and retry what failed, as soon as nothing else is being done."""
        self._is_pass_due = True
        self._has_work.set()

    def request_reload(self, name: str) -> None:
        """Load a model anew whose engine has ended because its files have changed."""
        if name not in self._to_reload:
            self._to_reload.append(name)
            self._has_work.set()

    async def apply(self, proposal: Proposal[_Result]) -> _Result:
        """Return when a proposal is applied and stored; it goes on if its caller leaves.

        Raise what kept it from being applied, and ChangesUnavailable.
        """
        self._proposals.append(proposal)
        self._has_work.set()
        return await asyncio.shield(proposal.outcome)

    async def bring_model(self, name: str, target: Changes, *, may_load: bool = True) -> None:
        """Serve or unload one model as `target` says. Raise the errors of `Deployment`."""
        models = target.wanted_models(self._configured.names)
        is_wanted = name in models
        if name in self._models.served and (not is_wanted or self._models.served[name] != models[name]):
            if is_wanted:
                self._models.loading(name)
            await self._unload(name)
        elif not is_wanted and any(model.name == name for model in self._registry.loaded):
            await self._unload(name)
        if may_load and is_wanted and name not in self._models.served:
            await self._load(name, models[name], target)

    async def bring_sleep(self, name: str, target: Changes, *, may_load: bool = True) -> None:
        """Put one model to sleep or wake it as `target` says. Raise the errors of `Deployment`."""
        del may_load  # waking a model that is to be awake undoes a sleep
        if name in target.asleep:
            await self._deployment.sleep(name)
        else:
            await self._wake(name, target)

    async def bring_adapter(self, full: str, target: Changes, *, may_load: bool = True) -> None:
        """Serve or unload one adapter as `target` says. Raise the errors of `Deployment`."""
        wanted = self._configured.wanted_adapters(target)
        if full in self._adapters.served and (full not in wanted or self._adapters.served[full] != wanted[full]):
            if full in wanted:
                self._adapters.loading(full)
            await self._unload_adapter(full)
        if may_load and full in wanted and full not in self._adapters.served:
            await self._load_adapter(full, wanted[full], target)

    async def add_adapter(self, full: str, target: Changes, *, may_load: bool = True) -> None:
        """Load an adapter that only `target` has. Raise the errors of `Deployment`; AdapterExists if it is served."""
        if may_load:
            await self._load_adapter(full, self._configured.wanted_adapters(target)[full], target)
        else:
            await self.bring_adapter(full, target, may_load=False)

    async def _wake(self, name: str, target: Changes) -> None:
        """Wake a model, or load it anew if its files have changed meanwhile."""
        try:
            await self._deployment.wake(name)
        except ModelChanged:
            await self._reload(name, target)

    async def _reload(self, name: str, target: Changes) -> None:
        """Unload a served model and load it anew, from its files as they are now, with a fingerprint of their own."""
        _log.warning("the files of a model have changed; it is loaded anew", extra={"fields": {"model": name}})
        entry = target.wanted_models(self._configured.names)[name]
        self._models.loading(name)
        await self._unload(name)
        try:
            await self._load(name, entry, target)
        except Exception as error:
            self._models.failed(name, str(error))
            raise
        self.request_pass()  # for its adapters that clients have loaded

    async def _reload_later(self, name: str) -> None:
        """Load a model anew if it is still wanted. A failure is logged, and the load is retried."""
        if name not in self._models.served:
            return
        await self._attempts.make(name, partial(self._reload, name, self.wanted.newest))
        if name not in self._models.served:  # without a shared store nothing else requests a pass
            asyncio.get_running_loop().call_later(RETRY_S, self.request_pass)

    async def _settle(self, proposal: Proposal[Any]) -> None:
        try:
            await self._make(proposal)
            proposal.succeed()
        except asyncio.CancelledError:
            proposal.outcome.cancel()
            raise
        except Exception as error:  # noqa: BLE001  it is raised where the proposal was made
            proposal.fail(error)

    async def _make(self, proposal: Proposal[Any]) -> None:
        try:
            await self.wanted.look()
        except (OSError, SharedTextLost) as error:
            raise ChangesUnavailable(LOOK_S) from error
        target = proposal.change(self.wanted.newest)
        proposal.check()
        if not proposal.is_tried_first:
            await self._keep(proposal)
            await proposal.step(self.wanted.newest)
            return
        await proposal.step(target)
        try:
            await self._keep(proposal)
        except BaseException:
            await self._undo(proposal)
            raise

    async def _keep(self, proposal: Proposal[Any]) -> None:
        try:
            await self.wanted.keep(proposal.change)
        except (OSError, SharedTextLost, Outdated) as error:
            raise ChangesUnavailable(LOOK_S) from error

    async def _undo(self, proposal: Proposal[Any]) -> None:
        try:
            await proposal.step(self.wanted.newest, may_load=False)
        except Exception as error:  # noqa: BLE001  the caller is to learn why the change failed, not why its undoing did
            _log.error("a change could not be undone: %s: %s", proposal.name, error)

    def _expect(self, wanted: Changes) -> None:
        self._attempts.make_all_due()
        self._models.expect(wanted.wanted_models(self._configured.names))
        self._adapters.expect(self._configured.wanted_adapters(wanted))

    def _wanted_models(self) -> Mapping[str, LoadedModel | None]:
        return self.wanted.newest.wanted_models(self._configured.names)

    def _wanted_adapters(self) -> Mapping[str, LoadedAdapter | None]:
        return self._configured.wanted_adapters(self.wanted.newest)

    async def _pass(self) -> None:
        """Take all steps to the wanted state; those that free memory come before those that use it."""
        models = self._wanted_models()
        for name in [name for name, entry in self._models.served.items() if models.get(name, "") != entry]:
            await self.bring_model(name, self.wanted.newest, may_load=False)
        asleep = self.wanted.newest.asleep
        await self._bring_sleeps(asleep)
        for name, entry in sorted(models.items(), key=lambda item: item[0] not in asleep):
            if name not in self._models.served and self._wanted_models().get(name, "") == entry:  # loads take minutes
                await self._attempts.make(name, partial(self._retry, self._models, name, self.bring_model))
                await self._bring_sleeps({name} & self.wanted.newest.asleep)
        for model in self._registry.loaded:
            if model.engine.is_asleep and model.name not in self.wanted.newest.asleep:
                await self._attempts.make(_sleep_of(model.name), partial(self._wake, model.name, self.wanted.newest))
        await self._bring_adapters()

    async def _bring_sleeps(self, names: Collection[str]) -> None:
        for name in [model.name for model in self._registry.loaded if model.name in names]:
            await self._attempts.make(_sleep_of(name), partial(self._deployment.sleep, name))

    async def _bring_adapters(self) -> None:
        wanted = self._wanted_adapters()
        for full in [full for full, entry in self._adapters.served.items() if wanted.get(full, "") != entry]:
            step = partial(self.bring_adapter, full, self.wanted.newest, may_load=False)
            await self._attempts.make(f"{full}'s unload", step)
        for full, entry in wanted.items():
            if full in self._adapters.served or self._wanted_adapters().get(full, "") != entry:
                continue
            if full.rpartition(":")[0] not in self._models.served:
                self._adapters.failed(full, "its model is not loaded")
            else:
                await self._attempts.make(full, partial(self._retry, self._adapters, full, self.bring_adapter))

    async def _retry(self, states: States[Any], name: str, bring: Callable[[str, Changes], Awaitable[None]]) -> None:
        states.loading(name)
        try:
            await bring(name, self.wanted.newest)
        except Exception as error:
            states.failed(name, str(error))
            raise

    async def _load(self, name: str, entry: LoadedModel | None, target: Changes) -> None:
        if entry is None:
            await self._deployment.load_model(self._configured.model(name, target))
        else:
            await self._deployment.load_client_model(entry.to_settings(self._engine))
        self._has_loaded(name, entry, target)

    def _has_loaded(self, name: str, entry: LoadedModel | None, target: Changes) -> None:
        self._models.served_as(name, entry)
        if entry is None:  # its adapters were loaded with it
            for full, adapter in self._configured.wanted_adapters(target).items():
                if adapter is None and full.rpartition(":")[0] == name:
                    self._adapters.served_as(full, None)

    async def _load_adapter(self, full: str, entry: LoadedAdapter | None, target: Changes) -> None:
        model, _, name = full.rpartition(":")
        if entry is None:
            await self._deployment.load_adapter(model, name, self._configured.adapters(target)[full])
        else:
            await self._deployment.load_client_adapter(model, name, entry.path)
        self._adapters.served_as(full, entry)

    async def _unload(self, name: str) -> None:
        for full in [full for full in self._adapters.served if full.rpartition(":")[0] == name]:
            self._adapters.gone(full)
        if self._models.state_of(name) is State.SERVED:
            self._models.gone(name)
        with contextlib.suppress(ModelNotFound):  # it was removed while the store was lost
            await self._deployment.unload_model(name)

    async def _unload_adapter(self, full: str) -> None:
        model, _, name = full.rpartition(":")
        if self._adapters.state_of(full) is State.SERVED:
            self._adapters.gone(full)
        with contextlib.suppress(RegistryError):  # it was removed while the store was lost
            await self._deployment.unload_adapter(model, name)


def _sleep_of(name: str) -> str:
    """The name of the attempts to put a model to sleep or wake it."""
    return f"{name}'s sleep"
