"""The reconciler: the only place that changes which models and adapters this replica serves.

It compares the served state (`States`) with the wanted state (`WantedState`), and applies the differences step by step.
Clients' changes are proposals to it. A change that adds something is applied here before it is stored, and undone if
that fails, so that other replicas never see a model that can't be loaded; a change that removes something is stored
first. Other replicas' changes are applied in passes, which free memory before they use it.
"""

from __future__ import annotations

import asyncio
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
from service.deployment.residency.residency import Residency
from service.deployment.states import States
from service.deployment.steps import Steps
from service.deployment.wanted_state import REFRESH_INTERVAL_S, WantedState
from service.registry.errors import ChangesUnavailable
from service.registry.registry import Registry
from service.settings.engine_settings import EngineSettings
from service.settings.model_settings import ModelSettings
from service.storage.document import DocumentStore
from service.storage.shared_text import Outdated, SharedTextLost

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)


class Reconciler:
    """Makes a replica serve the wanted state. `begin`, `load` of each model, `start`, `run` until cancelled."""

    def __init__(
        self,
        deployment: Deployment,
        registry: Registry,
        engine: EngineSettings,
        store: DocumentStore[Changes],
        clock: Callable[[], float] = time.monotonic,
        *,
        residency: Residency | None = None,
    ) -> None:
        """`engine` has the service's engine settings, which apply to models that are loaded without engine settings.

        Without `residency` all models are in memory.
        """
        self.residency = residency or Residency()
        self.wanted = WantedState("models", store, Changes(), self._expect, records_reads=True)
        self.steps = Steps(deployment, registry, engine, self.residency, self.request_pass)
        self._models = self.steps.models
        self._adapters = self.steps.adapters
        self._registry = registry
        self._attempts = Attempts(clock)
        self._proposals: deque[Proposal[Any]] = deque()
        self._is_pass_due = False
        self._to_reload: list[str] = []
        self._has_work = asyncio.Event()
        self.residency.call_on_need(self._has_work.set)

    @property
    def configured(self) -> ConfiguredModels:
        """The models of the settings."""
        return self.steps.configured

    @property
    def unloaded(self) -> Collection[str]:
        """The models and adapters of the settings that clients have unloaded."""
        return self.steps.configured.unloaded(self.wanted.newest)

    async def begin(self, configured: Sequence[ModelSettings]) -> Sequence[ModelSettings]:
        """Read the wanted state, and return the configured models to load. Raise OSError or SharedTextLost."""
        self.steps.configured = ConfiguredModels(configured)
        await self.wanted.read()
        to_load = self.steps.configured.wanted(self.wanted.newest)
        # A sleeping model frees its memory before the next one is loaded.
        return sorted(to_load, key=lambda model: model.name not in self.wanted.newest.asleep)

    async def load(self, model: ModelSettings) -> None:
        """Load and serve a configured model at the start. Raise the errors of `Deployment.load_model`."""
        self._models.set_loading(model.name)
        try:
            await self.steps.load(model.name, None, self.wanted.newest)
        except Exception as error:
            self._models.set_failed(model.name, str(error))
            raise
        step = partial(self.steps.reconcile_sleep, model.name, self.wanted.newest)
        await self._attempts.make(_sleep_of(model.name), step)

    async def start(self) -> None:
        """Apply the wanted state after the configured models were loaded. Failures are logged and retried."""
        self._attempts.have_failed(self._models.all_failed)
        await self._reconcile()

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
                    await self._reconcile()
                except Exception:  # noqa: BLE001  a replica that stopped following would not be noticed
                    _log.exception("other replicas' changes could not be applied")
            if (step := self.residency.next_step()) is not None:
                await self.steps.take(step, self.wanted.newest)
                self._has_work.set()

    def request_pass(self) -> None:
        """Request a pass.

        It applies other replicas' changes and retries failed steps when no proposal is in progress.
        """
        self._is_pass_due = True
        self._has_work.set()

    def request_reload(self, name: str) -> None:
        """Request a reload of a model whose engine has ended because its files have changed."""
        if name not in self._to_reload:
            self._to_reload.append(name)
            self._has_work.set()

    async def apply(self, proposal: Proposal[_Result]) -> _Result:
        """Return when a proposal is applied and stored.

        It continues if its client disconnects. Raise the error that prevented it, and ChangesUnavailable.
        """
        self._proposals.append(proposal)
        self._has_work.set()
        return await asyncio.shield(proposal.outcome)

    async def _reload_later(self, name: str) -> None:
        """Reload a model if it is still wanted. A failure is logged, and the load is retried."""
        if name not in self._models.served:
            return
        await self._attempts.make(name, partial(self.steps.reload, name, self.wanted.newest))
        if name not in self._models.served:  # without a shared store nothing else requests a pass
            asyncio.get_running_loop().call_later(RETRY_S, self.request_pass)

    async def _settle(self, proposal: Proposal[Any]) -> None:
        """Apply a proposal unless it was withdrawn, and set its outcome."""
        if not proposal.begin():
            return
        try:
            with proposal.load.running():
                await self._apply(proposal)
            proposal.succeed()
        except asyncio.CancelledError:
            proposal.outcome.cancel()
            raise
        except Exception as error:  # noqa: BLE001  it is raised where the proposal was made
            proposal.fail(error)

    async def _apply(self, proposal: Proposal[Any]) -> None:
        """Apply and store a proposal, in its order.

        Raise the error that prevents it, after undoing the applied part.
        """
        try:
            await self.wanted.refresh()
        except (OSError, SharedTextLost) as error:
            raise ChangesUnavailable(REFRESH_INTERVAL_S) from error
        target = proposal.change(self.wanted.newest)
        proposal.check()
        if not proposal.is_applied_first:
            await self._store(proposal)
            await proposal.step(self.wanted.newest)
            return
        await proposal.step(target)
        try:
            await self._store(proposal)
        except BaseException:
            await self._undo(proposal)
            raise

    async def _store(self, proposal: Proposal[Any]) -> None:
        """Store a proposal's change. Raise ChangesUnavailable if the store fails."""
        try:
            await self.wanted.store(proposal.change)
        except (OSError, SharedTextLost, Outdated) as error:
            raise ChangesUnavailable(REFRESH_INTERVAL_S) from error

    async def _undo(self, proposal: Proposal[Any]) -> None:
        """Unload what a proposal has loaded. A failure is logged."""
        try:
            await proposal.step(self.wanted.newest, may_load=False)
        except Exception as error:  # noqa: BLE001  the caller is to learn why the change failed, not why its undoing did
            _log.error("a change could not be undone: %s: %s", proposal.name, error)

    def _expect(self, wanted: Changes) -> None:
        """Update the states of models and adapters for a changed wanted state."""
        self._attempts.make_all_due()
        self._models.set_wanted(wanted.wanted_models(self.steps.configured.names))
        self._adapters.set_wanted(self.steps.configured.wanted_adapters(wanted))
        self.residency.set_asleep(wanted.asleep)

    def _wanted_models(self) -> Mapping[str, LoadedModel | None]:
        return self.wanted.newest.wanted_models(self.steps.configured.names)

    def _wanted_adapters(self) -> Mapping[str, LoadedAdapter | None]:
        return self.steps.configured.wanted_adapters(self.wanted.newest)

    async def _reconcile(self) -> None:
        """Take all steps to the wanted state; those that free memory come before those that use it."""
        models = self._wanted_models()
        for name in [name for name, entry in self._models.served.items() if models.get(name, "") != entry]:
            await self.steps.reconcile_model(name, self.wanted.newest, may_load=False)
        asleep = self.wanted.newest.asleep
        await self._put_to_sleep(asleep)
        for name, entry in sorted(models.items(), key=lambda item: item[0] not in asleep):
            if name not in self._models.served and self._wanted_models().get(name, "") == entry:  # loads take minutes
                await self._attempts.make(name, partial(self._retry, self._models, name, self.steps.reconcile_model))
                await self._put_to_sleep({name} & self.wanted.newest.asleep)
        for model in self._registry.loaded:
            is_asleep = model.engine.is_asleep and not self.residency.is_on  # else the next request wakes it
            if is_asleep and model.name not in self.wanted.newest.asleep:
                step = partial(self.steps.wake, model.name, self.wanted.newest)
                await self._attempts.make(_sleep_of(model.name), step)
        await self._reconcile_adapters()

    async def _put_to_sleep(self, names: Collection[str]) -> None:
        """Put the loaded models among `names` to sleep."""
        for name in [model.name for model in self._registry.loaded if model.name in names]:
            await self._attempts.make(_sleep_of(name), partial(self.steps.reconcile_sleep, name, self.wanted.newest))

    async def _reconcile_adapters(self) -> None:
        """Take all steps to the wanted adapters: first unload, then load."""
        wanted = self._wanted_adapters()
        for full in [full for full, entry in self._adapters.served.items() if wanted.get(full, "") != entry]:
            step = partial(self.steps.reconcile_adapter, full, self.wanted.newest, may_load=False)
            await self._attempts.make(f"{full}'s unload", step)
        for full, entry in wanted.items():
            if full in self._adapters.served or self._wanted_adapters().get(full, "") != entry:
                continue
            if full.rpartition(":")[0] not in self._models.served:
                self._adapters.set_failed(full, "its model is not loaded")
            else:
                step = partial(self._retry, self._adapters, full, self.steps.reconcile_adapter)
                await self._attempts.make(full, step)

    async def _retry(self, states: States[Any], name: str, load: Callable[[str, Changes], Awaitable[None]]) -> None:
        """Load a model or an adapter, and record a failure in its state."""
        states.set_loading(name)
        try:
            await load(name, self.wanted.newest)
        except Exception as error:
            states.set_failed(name, str(error))
            raise


def _sleep_of(name: str) -> str:
    """The name of the attempts to put a model to sleep or wake it."""
    return f"{name}'s sleep"
