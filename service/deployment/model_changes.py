"""Load, unload, put to sleep and wake models and adapters: clients' proposals to the reconciler.

A change returns when it is applied here and stored; a load or a wake returns when the other replicas have recorded that
they know it, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeVar

from service.deployment.changes import Changes, LoadedAdapter, LoadedModel
from service.deployment.deployment import Deployment, ServedAdapter
from service.deployment.operations.operation import Operation
from service.deployment.proposal import Proposal
from service.deployment.reconciler import Reconciler
from service.generation.caller import Caller
from service.generation.errors import InvalidRequest
from service.registry.errors import AdapterNotFound, ModelExists
from service.registry.models import ServedGenerator, ServedModel, adapted_name
from service.registry.registry import Registry
from service.settings.engine_settings import EngineSettings

_Result = TypeVar("_Result")


class ModelChanges:
    """Changes of models and adapters by callers. Every change may raise ChangesUnavailable."""

    def __init__(
        self, reconciler: Reconciler, deployment: Deployment, registry: Registry, engine: EngineSettings
    ) -> None:
        """`engine` has the service's engine settings."""
        self._reconciler = reconciler
        self._deployment = deployment
        self._registry = registry
        self._engine = engine

    def adapters(self, caller: Caller, model: str = "") -> Sequence[ServedAdapter]:
        """The adapters of a model, or of all, that a caller may use. Raise ModelNotFound or UnsupportedTask."""
        visible = self._registry.visible_to(caller)
        if model:
            visible.base(model)
        return [self._deployment.adapter(each.name) for each in visible.adapters(model)]

    async def load_model(self, entry: LoadedModel, caller: Caller, operation: Operation | None = None) -> ServedModel:
        """Load and serve a model. Raise InvalidRequest, ModelExists, LoadingOff or ModelLoadError.

        The progress is recorded in `operation`, by which the load may be cancelled: raise LoadCancelled then.
        """
        return await self._apply_on_all_replicas(self._load(entry, caller), operation)

    async def check_load(self, entry: LoadedModel, caller: Caller) -> None:
        """Raise the error of `load_model` if it is known before the load."""
        proposal = self._load(entry, caller)
        wanted = self._reconciler.wanted.newest
        proposal.change(wanted)
        proposal.check()
        if self._registry.is_taken_for_load(entry.name):
            raise ModelExists(entry.name)
        if self._reconciler.configured.unloaded_model(entry, wanted) is None:
            await self._deployment.client_folder(entry.path)

    def _load(self, entry: LoadedModel, caller: Caller) -> Proposal[ServedModel]:
        """Return the proposal to load a model. Raise InvalidRequest."""
        name = entry.name
        _check_name(name, caller)

        def change(changes: Changes) -> Changes:
            configured = self._reconciler.configured
            if configured.unloaded_model(entry, changes) is not None:
                return changes.with_own_model(name, configured.names)
            return changes.with_model(entry, configured.names)

        def check() -> None:
            try:
                entry.to_settings(self._engine)
            except ValueError as error:
                raise InvalidRequest("name", str(error)) from error

        def served() -> ServedModel:
            return next(model for model in self._registry.loaded if model.name == name)

        step = partial(self._reconciler.steps.reconcile_model, name)
        return Proposal(name, change, check, step, served)

    async def unload_model(self, name: str, caller: Caller) -> None:
        """Stop serving a model and its adapters. Raise ModelNotFound."""
        visible = self._registry.visible_to(caller)

        def check() -> None:
            if not (name in visible.failed and self._reconciler.wanted.is_shared):
                visible.own(name)

        def change(changes: Changes) -> Changes:
            return changes.without_model(name, self._reconciler.configured.names)

        step = partial(self._reconciler.steps.reconcile_model, name)
        await self._reconciler.apply(Proposal(name, change, check, step, _nothing, is_applied_first=False))

    async def sleep(self, name: str, caller: Caller) -> None:
        """Free a model's memory until it is woken. Raise ModelNotFound or CannotSleep."""
        await self._reconciler.apply(self._sleep(name, caller, is_asleep=True))

    async def wake(self, name: str, caller: Caller, operation: Operation | None = None) -> None:
        """Load a sleeping model again. Raise ModelNotFound or ModelLoadError. `operation` is that of `load_model`."""
        await self._apply_on_all_replicas(self._sleep(name, caller, is_asleep=False), operation)

    def check_wake(self, name: str, caller: Caller) -> None:
        """Raise the error of `wake` if it is known before."""
        self._sleep(name, caller, is_asleep=False).check()

    async def load_adapter(self, entry: LoadedAdapter, caller: Caller) -> ServedAdapter:
        """Load and serve an adapter.

        Raise ModelNotFound, UnsupportedTask, AdapterExists, AdapterRejected, TooManyAdapters, LoadingOff,
        InvalidRequest, or engine errors.
        """
        full = adapted_name(entry.model, entry.name)

        def change(changes: Changes) -> Changes:
            if self._reconciler.configured.unloaded_adapter(entry, changes) is not None:
                return changes.with_own_adapter(entry.model, entry.name)
            return changes.with_adapter(entry)

        def check() -> None:
            self._registry.visible_to(caller).base(entry.model)  # first, to hide other models
            _check_name(full, caller)

        step = partial(self._reconciler.steps.add_adapter, full)
        check()  # before the model is loaded on demand
        async with self._reconciler.residency.held(entry.model, caller, None):
            return await self._apply_on_all_replicas(
                Proposal(full, change, check, step, partial(self._deployment.adapter, full))
            )

    async def unload_adapter(self, model: str, name: str, caller: Caller) -> None:
        """Stop serving an adapter. Raise ModelNotFound, UnsupportedTask or AdapterNotFound."""
        visible, full = self._registry.visible_to(caller), adapted_name(model, name)

        def check() -> None:
            if full in visible.failed:
                return
            visible.base(model)
            if not isinstance(visible.find(full), ServedGenerator):
                raise AdapterNotFound(model, name)

        def change(changes: Changes) -> Changes:
            return changes.without_adapter(model, name, self._reconciler.configured.adapters(changes))

        step = partial(self._reconciler.steps.reconcile_adapter, full)
        await self._reconciler.apply(Proposal(full, change, check, step, _nothing, is_applied_first=False))

    def _sleep(self, name: str, caller: Caller, *, is_asleep: bool) -> Proposal[None]:
        """Return the proposal to put a model to sleep or to wake it."""

        def check() -> None:
            self._registry.visible_to(caller).own(name)

        def change(changes: Changes) -> Changes:
            return changes.with_sleep(name, is_asleep=is_asleep)

        return Proposal(name, change, check, partial(self._reconciler.steps.reconcile_sleep, name), _nothing)

    async def _apply_on_all_replicas(self, proposal: Proposal[_Result], operation: Operation | None = None) -> _Result:
        """Apply a proposal, and return its result when all other replicas know the change."""
        if operation is None:
            result = await self._reconciler.apply(proposal)
        else:
            proposal.load, proposal.on_begin = operation.load, operation.set_begun
            with operation.load.interruptible(proposal.withdraw):
                result = await self._reconciler.apply(proposal)
            operation.set_applied()
        await self._reconciler.wanted.until_known()
        return result


def _check_name(name: str, caller: Caller) -> None:
    """Raise InvalidRequest for a model's name that the caller may not use."""
    if not caller.may_use(name):
        raise InvalidRequest("name", f"the key may not use a model named {name!r}")


def _nothing() -> None:
    """Return None, for changes without a result."""
