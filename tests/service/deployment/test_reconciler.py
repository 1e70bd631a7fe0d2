"""The reconciler: the order of storing and applying changes, and rollback.

The store is scripted and the clock is driven.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from service.deployment.changes import Changes, LoadedModel
from service.deployment.deployment import Deployment
from service.deployment.model_changes import ModelChanges
from service.deployment.operations.operation import LoadPhase, Operation, OperationKind
from service.deployment.reconciler import Reconciler
from service.engine.interface.port import Engine, StepObserver
from service.generation.caller import ANONYMOUS, Caller
from service.generation.errors import InvalidRequest, ModelLoadError
from service.generation.stats import EngineStats
from service.registry.errors import ChangesUnavailable, ModelExists, ModelNotFound
from service.registry.models import ServedModel
from service.registry.registry import Registry
from service.settings.model_settings import ModelSettings
from service.storage.document import DocumentStore
from service.storage.shared_text import Outdated, SharedTextLost
from tests.engine.fakes import Clock, until
from tests.service.fakes import ScriptedRunner, scripted_engine, served, settings_of
from tests.service.plain_preparation import PlainPreparation

NEW = LoadedModel(name="new", path="new")


class Store(DocumentStore[Changes]):
    """A store that other replicas share. `events` is the scenario's log; `is_lost` makes writes fail."""

    is_shared = True

    def __init__(self, events: list[str]) -> None:
        self._events = events
        self.document = Changes()
        self._seen = self.document
        self.is_lost = False
        self.behind = 0  # replicas that don't know the document

    def read(self) -> Changes:
        self._seen = self.document
        return self.document

    def write(self, document: Changes) -> None:
        if self.is_lost:
            raise SharedTextLost("away")
        if self.is_newer():
            raise Outdated
        self._events.append("store")
        self.document = self._seen = document

    def is_newer(self) -> bool:
        return self.document is not self._seen

    def num_behind(self) -> int:
        return self.behind

    def close(self) -> None:
        """Do nothing: no connection is open."""


class Silent:
    """A step observer that ignores all steps."""

    def on_step(self, stats: EngineStats) -> None:
        """Ignore the step."""


class Monitor:
    """An engine monitor that records when engines are added and removed."""

    def __init__(self, events: list[str]) -> None:
        self._events = events

    def observer(self, _model: str) -> StepObserver:
        return Silent()

    def add(self, model: str, _engine: Engine) -> None:
        self._events.append(f"load {model}")

    def remove(self, model: str) -> None:
        self._events.append(f"unload {model}")


@dataclass
class Scene:
    """A replica without a server. Loads of the names in `broken` fail; `gate` holds all loads."""

    reconciler: Reconciler
    changes: ModelChanges
    registry: Registry
    store: Store
    clock: Clock
    events: list[str]
    broken: set[str]
    gate: asyncio.Event

    @property
    def names(self) -> list[str]:
        return [model.name for model in self.registry.loaded]

    async def follow(self, wanted: Changes) -> None:
        """Store a change of another replica, and apply it."""
        self.store.document = wanted
        await self.reconciler.wanted.refresh()
        self.reconciler.request_pass()


@asynccontextmanager
async def scene(root: Path) -> AsyncIterator[Scene]:
    """Run a replica of the configured model `a`."""
    (root / "new").mkdir()
    settings = settings_of(models_root=root, model={"a": "nowhere"})
    events, broken, gate, clock, registry = list[str](), set[str](), asyncio.Event(), Clock(), Registry()
    gate.set()

    async def load(model: ModelSettings, observer: StepObserver) -> ServedModel:
        await gate.wait()
        if model.name in broken:
            raise ModelLoadError("too large")
        return served(model.name, scripted_engine(ScriptedRunner(), observer), PlainPreparation())

    deployment, store = Deployment(settings, registry, Monitor(events)), Store(events)
    reconciler = Reconciler(deployment, registry, settings.engine, store, clock)
    changes = ModelChanges(reconciler, deployment, registry, settings.engine)
    deployment.load_by(load)
    for model in await reconciler.begin(settings.served_models()):
        await reconciler.load(model)
    await reconciler.start()
    running = asyncio.create_task(reconciler.run())
    events.clear()
    try:
        yield Scene(reconciler, changes, registry, store, clock, events, broken, gate)
    finally:
        running.cancel()
        for each in registry.loaded:
            await each.engine.drain(0)
            await each.close()


async def applied(scene: Scene, entry: LoadedModel = NEW) -> None:
    """Load a model, and return as soon as it is stored, without waiting for other replicas."""
    loading = asyncio.create_task(scene.changes.load_model(entry, ANONYMOUS))
    await until(lambda: loading.done() or entry in scene.store.document.models)
    if not loading.done():
        loading.cancel()
        with suppress(asyncio.CancelledError):
            await loading
    else:
        await loading


async def test_a_load_is_applied_before_it_is_stored(tmp_path: Path) -> None:
    async with scene(tmp_path) as replica:
        await applied(replica)
        assert replica.events == ["load new", "store"]
        assert replica.store.document.models == (NEW,)


async def test_a_load_that_fails_is_never_stored(tmp_path: Path) -> None:
    """The registry does not have the model afterwards."""
    async with scene(tmp_path) as replica:
        replica.broken.add("new")
        with pytest.raises(ModelLoadError, match="too large"):
            await replica.changes.load_model(NEW, ANONYMOUS)
        assert (replica.events, replica.names, dict(replica.registry.failed)) == ([], ["a"], {})


async def test_a_load_that_cannot_be_stored_is_undone(tmp_path: Path) -> None:
    async with scene(tmp_path) as replica:
        replica.store.is_lost = True
        with pytest.raises(ChangesUnavailable):
            await replica.changes.load_model(NEW, ANONYMOUS)
        assert (replica.events, replica.names) == (["load new", "unload new"], ["a"])


async def test_name_taken_by_another_replica_during_a_load_is_rejected(tmp_path: Path) -> None:
    """The caller gets an error that the name is taken, and the other replica's model replaces this one's."""
    async with scene(tmp_path) as replica:
        replica.gate.clear()
        loading = asyncio.create_task(replica.changes.load_model(NEW, ANONYMOUS))
        await asyncio.sleep(0)
        other = LoadedModel(name="new", path="new", version="7")
        replica.store.document = Changes(models=(other,))
        replica.gate.set()
        with pytest.raises(ModelExists):
            await loading
        replica.reconciler.request_pass()
        await until(lambda: "new" in replica.names)
        assert replica.store.document.models == (other,)


async def test_an_unload_is_stored_before_it_is_applied(tmp_path: Path) -> None:
    """An unload that can't be stored changes nothing."""
    async with scene(tmp_path) as replica:
        replica.store.is_lost = True
        with pytest.raises(ChangesUnavailable):
            await replica.changes.unload_model("a", ANONYMOUS)
        assert (replica.events, replica.names) == ([], ["a"])
        replica.store.is_lost = False
        await replica.changes.unload_model("a", ANONYMOUS)
        assert (replica.events, replica.names) == (["store", "unload a"], [])


async def test_change_continues_if_its_client_disconnects(tmp_path: Path) -> None:
    async with scene(tmp_path) as replica:
        replica.gate.clear()
        loading = asyncio.create_task(replica.changes.load_model(NEW, ANONYMOUS))
        await asyncio.sleep(0)
        loading.cancel()
        replica.gate.set()
        await until(lambda: replica.store.document.models == (NEW,))
        assert replica.names == ["a", "new"]


async def test_a_failed_load_is_retried_after_a_minute(tmp_path: Path) -> None:
    """A failed load is not retried in each pass; meanwhile requests for the model are rejected with the reason."""
    async with scene(tmp_path) as replica:
        replica.broken.add("new")
        await replica.follow(Changes(models=(NEW,)))
        await until(lambda: dict(replica.registry.failed) == {"new": "too large"})
        replica.broken.clear()
        replica.clock.now += 59
        replica.reconciler.request_pass()
        for _ in range(2):  # the pass comes between two proposals
            with pytest.raises(ModelNotFound):
                await replica.changes.unload_model("missing", ANONYMOUS)
        assert dict(replica.registry.failed) == {"new": "too large"}
        replica.clock.now += 1
        replica.reconciler.request_pass()
        await until(lambda: replica.names == ["a", "new"])
        assert not replica.registry.failed


async def test_unloads_are_applied_before_loads(tmp_path: Path) -> None:
    """Other replicas' unloads are applied before their loads; a changed version replaces the model."""
    async with scene(tmp_path) as replica:
        await replica.follow(Changes(models=(NEW,), unloaded=frozenset({"a"})))
        await until(lambda: replica.names == ["new"])
        newer = LoadedModel(name="new", path="new", version="2")
        await replica.follow(Changes(models=(newer,), unloaded=frozenset({"a"})))
        await until(lambda: replica.events[2:] == ["unload new", "load new"])
        assert replica.events[:2] == ["unload a", "load new"]


async def test_caller_can_change_only_visible_models(tmp_path: Path) -> None:
    """The caller is an argument; models that it may not use look as if they didn't exist."""
    caller = Caller(models=("b*",))
    async with scene(tmp_path) as replica:
        for change in (replica.changes.unload_model, replica.changes.sleep, replica.changes.wake):
            with pytest.raises(ModelNotFound):
                await change("a", caller)
        with pytest.raises(InvalidRequest):
            await replica.changes.load_model(NEW, caller)
        assert [each.name for each in replica.registry.visible_to(caller)] == []
        assert [each.name for each in replica.registry.visible_to(ANONYMOUS)] == ["a"]


async def test_an_operation_that_is_published_is_not_cancelled(tmp_path: Path) -> None:
    """The model is served and stored; the operation waits for the other replicas."""
    async with scene(tmp_path) as replica:
        replica.store.behind = 1
        operation = Operation("", OperationKind.LOAD, "new")
        loading = asyncio.create_task(replica.changes.load_model(NEW, ANONYMOUS, operation))
        await until(lambda: operation.phase is LoadPhase.PUBLISHING)
        assert replica.names == ["a", "new"]
        assert not operation.load.cancel()
        assert not loading.done()
        replica.store.behind = 0
        assert (await loading).name == "new"


async def test_an_operation_whose_store_is_lost_is_undone(tmp_path: Path) -> None:
    async with scene(tmp_path) as replica:
        replica.store.is_lost = True
        operation = Operation("", OperationKind.LOAD, "new")
        with pytest.raises(ChangesUnavailable):
            await replica.changes.load_model(NEW, ANONYMOUS, operation)
        assert replica.names == ["a"]
