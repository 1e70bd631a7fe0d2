"""Operations at two replicas: each reports and cancels those of the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import pytest
from grpc import aio
from sluice.v1 import error_pb2, operation_pb2, operation_pb2_grpc

from service.deployment.changes import LoadedModel
from service.deployment.operations.operation import Operation, OperationError, OperationState
from service.deployment.operations.operations import Operations
from service.deployment.operations.records import OperationRecord, OperationRecords, RecordsJson
from service.deployment.operations.shared_operations import LOST_S, SharedOperations
from service.generation.caller import Caller
from service.generation.errors import EngineClosed, ModelLoadError
from service.registry.errors import ChangesUnavailable, OperationNotFound
from service.storage.document import SharedDocument
from service.storage.shared_file import SharedFile
from service.storage.shared_text import SharedText
from tests.engine.fakes import until
from tests.redis_server import RedisServer
from tests.service.endpoint_fakes import serving
from tests.service.fakes import rejection_of
from tests.service.servicers.models.slow_loads import SlowLoads, slow_loads
from tests.waiting import GUARD_S

MakeStore: TypeAlias = Callable[[], "SharedFile | SharedText"]
OWNER, OTHER = Caller(id="owner"), Caller(id="other")


class Changes:
    """Loads that end when the test says so."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def check_load(self, entry: LoadedModel, caller: Caller) -> None:
        """Admit every load."""

    async def load_model(self, entry: LoadedModel, caller: Caller, operation: Operation) -> None:
        with operation.load.interruptible(self.gate.set):
            await self.gate.wait()
        operation.load.check()
        if entry.name == "broken":
            raise ModelLoadError("broken")


def described(error: Exception) -> OperationError:
    return OperationError(3, str(error), "path")


class Replica:
    """The operations of one replica, with a clock that the test sets.

    Its pauses take no time, but don't end while `may_continue` isn't set.
    """

    def __init__(self, store: SharedFile | SharedText) -> None:
        self.changes = Changes()
        changes: Any = self.changes
        self.may_continue = asyncio.Event()
        self.may_continue.set()
        self.num_pauses = 0
        self.now = 0.0
        self.local = Operations(changes, described)
        self.shared = SharedOperations(
            self.local, SharedDocument(store, RecordsJson()), described, sleep=self._pause, clock=lambda: self.now
        )

    async def _pause(self, _: float) -> None:
        self.num_pauses += 1
        await asyncio.sleep(0)  # let others run
        await self.may_continue.wait()


@pytest.fixture(params=["file", "Redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Open the store of all replicas."""
    if request.param == "file":
        return lambda: SharedFile(tmp_path / "operations")
    redis: RedisServer = request.getfixturevalue("redis")
    return lambda: SharedText(redis.url, "operations", GUARD_S)


@asynccontextmanager
async def replicas(make: MakeStore) -> AsyncIterator[tuple[Replica, Replica]]:
    pair = Replica(make()), Replica(make())
    for each in pair:
        await each.shared.read()
    running = [asyncio.create_task(each.shared.run()) for each in pair]
    yield pair
    for task in running:
        task.cancel()
    for each in pair:
        each.shared.close()


@pytest.mark.parametrize(("name", "state"), [("m", OperationState.SUCCEEDED), ("broken", OperationState.FAILED)])
async def test_a_replica_reports_an_operation_of_the_other_until_its_end(
    name: str, state: OperationState, store: MakeStore
) -> None:
    """Its record is known before its client has the id, and it belongs to its key there, too."""
    async with replicas(store) as (one, other):
        operation = await one.shared.load(LoadedModel(name=name, path="p"), OWNER)
        found = await other.shared.get(operation.id, OWNER)
        assert (found.model, found.state) == (name, OperationState.RUNNING)
        with pytest.raises(OperationNotFound):
            await other.shared.get(operation.id, OTHER)
        assert (await other.shared.wait(operation.id, OWNER, 0)).state is OperationState.RUNNING
        waiting = asyncio.create_task(other.shared.wait(operation.id, OWNER, 3600))
        one.changes.gate.set()
        ended = await asyncio.wait_for(waiting, GUARD_S)
        assert (ended.state, ended.error, ended.ended_ns) == (state, operation.error, operation.ended_ns)
        own = await other.shared.load(LoadedModel(name="own", path="p"), OWNER)
        for replica in (one, other):
            assert [each.id for each in await replica.shared.list(OWNER)] == [own.id, operation.id]
            assert not await replica.shared.list(OTHER)


async def test_a_replica_cancels_an_operation_of_the_other(store: MakeStore) -> None:
    async with replicas(store) as (one, other):
        one.may_continue.clear()
        operation = await one.shared.load(LoadedModel(name="m", path="p"), OWNER)
        cancelling = asyncio.create_task(other.shared.cancel(operation.id, OWNER))
        await until(lambda: other.num_pauses > 0)  # the cancellation is stored
        one.may_continue.set()
        assert (await asyncio.wait_for(cancelling, GUARD_S)).state is OperationState.CANCELLED
        assert operation.state is OperationState.CANCELLED
        assert (await other.shared.cancel(operation.id, OWNER)).state is OperationState.CANCELLED


async def test_an_operation_of_a_replica_that_has_died_has_failed(tmp_path: Path) -> None:
    """It is lost if nothing of it was published for a while by the reader's clock. Wall clocks may be far apart."""
    store = SharedDocument(SharedFile(tmp_path / "operations"), RecordsJson())
    async with replicas(lambda: SharedFile(tmp_path / "operations")) as (one, other):
        one.may_continue.clear()  # and publishes no more
        operation = await one.shared.load(LoadedModel(name="m", path="p"), OWNER)
        record = OperationRecord.of(operation, "another")
        ahead_ns = int(100 * LOST_S * 1e9)
        for replica, shift_ns in (("ahead", ahead_ns), ("behind", -ahead_ns)):
            changes = {"id": replica, "replica": replica, "published_ns": record.published_ns + shift_ns}
            store.read()
            added = record.model_copy(update=changes)
            store.write(OperationRecords(records=[*store.read().records, added]))

        async def states() -> list[OperationState]:
            names = ("ahead", "behind", operation.id)
            return [(await other.shared.get(name, OWNER)).state for name in names]

        running, failed = OperationState.RUNNING, OperationState.FAILED
        assert await states() == [running] * 3
        other.now += LOST_S - 1
        assert await states() == [running] * 3
        before = store.read().find(operation.id, OWNER.id)
        one.may_continue.set()  # and publishes again
        while store.read().find(operation.id, OWNER.id) == before:  # noqa: ASYNC110  the store is asked, as replicas do
            await asyncio.sleep(0)
        other.now += 1
        assert await states() == [failed, failed, running]
        found = await asyncio.wait_for(other.shared.wait("ahead", OWNER, 3600), GUARD_S)
        assert found.error == OperationError(3, "the service that ran the operation has ended", "path")


async def test_a_wait_for_another_replicas_operation_ends_with_the_service(tmp_path: Path) -> None:
    async with replicas(lambda: SharedFile(tmp_path / "operations")) as (one, other):
        operation = await one.shared.load(LoadedModel(name="m", path="p"), OWNER)
        waiting = asyncio.create_task(other.shared.wait(operation.id, OWNER, 3600))
        await asyncio.sleep(0)
        other.shared.end()
        with pytest.raises(EngineClosed):
            await waiting


async def test_without_the_store_a_replica_knows_its_own_operations_only(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    async with replicas(lambda: SharedFile(tmp_path / "shared" / "operations")) as (one, other):
        (tmp_path / "shared" / "operations").write_text("{")
        operation = await one.shared.load(LoadedModel(name="m", path="p"), OWNER)
        assert await one.shared.get(operation.id, OWNER) is operation
        with pytest.raises(ChangesUnavailable):
            await other.shared.get(operation.id, OWNER)


async def test_clients_poll_and_cancel_at_any_replica(tmp_path: Path) -> None:
    """Over gRPC, with models that replicas share in a file."""
    file = tmp_path / "loaded.json"
    root = tmp_path / "root"
    root.mkdir()
    async with (
        slow_loads(root, loaded_models_file=file) as loads,
        serving("a", models_root=root, loaded_models_file=file) as other,
        aio.insecure_channel(f"127.0.0.1:{other.port}") as channel,
    ):
        elsewhere = SlowLoads(other, operation_pb2_grpc.OperationServiceStub(channel))
        first = await loads.begin()
        await loads.next()
        assert (await elsewhere.get(first)).state == operation_pb2.OPERATION_STATE_RUNNING
        assert (await elsewhere.cancel(first)).state == operation_pb2.OPERATION_STATE_CANCELLED
        second = await loads.begin()
        (await loads.next()).gate.set_exception(ModelLoadError("no such layer"))
        failed = await elsewhere.wait(second)
        assert (failed.error.reason, failed.error.message) == (error_pb2.ERROR_REASON_MODEL_REFUSED, "no such layer")
        assert await elsewhere.get(second) == await loads.get(second)
        rejected = await rejection_of(elsewhere.operations.GetOperation(operation_pb2.GetOperationRequest(id="x")))
        assert (rejected.code, rejected.info.reason) == (grpc.StatusCode.NOT_FOUND, "OPERATION_NOT_FOUND")
