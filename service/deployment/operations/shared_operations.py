"""Operations that any replica can report and cancel. The one that runs an operation publishes its record in a store.

Without a shared store a replica knows its own operations only.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from service.deployment.changes import LoadedModel
from service.deployment.operations.operation import Operation, OperationError, OperationState
from service.deployment.operations.operations import KEPT_S, Operations
from service.deployment.operations.records import OperationRecord, OperationRecords
from service.deployment.wanted_state import WantedState
from service.generation.caller import Caller
from service.generation.errors import EngineClosed
from service.registry.errors import ChangesUnavailable, OperationNotFound
from service.storage.document import DocumentStore
from service.storage.shared_text import Outdated, SharedTextLost

KnownOperation: TypeAlias = Operation | OperationRecord

INTERVAL_S: Final = 1.0  # between the publications of running operations
LOST_S: Final = 30.0  # without another publication a running operation counts as lost, with its replica
_POLL_S: Final = 0.5  # between the readings of an operation of another replica
_RETRY_S: Final = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Publication:
    """The last publication of an operation, and when it was read, by the clock of this replica."""

    published_ns: int
    read_at: float


class SharedOperations:
    """The operations of all replicas: those of this one, and the records of the others. `run` until cancelled."""

    def __init__(
        self,
        operations: Operations,
        store: DocumentStore[OperationRecords],
        describe: Callable[[Exception], OperationError],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`describe` describes the end of an operation that was lost with its replica. `clock` is never set."""
        self._operations = operations
        self._records = WantedState("operations", store, OperationRecords(), self._take)
        self._published: dict[str, _Publication] = {}  # of other replicas' operations, by their ids
        self._clock = clock
        self._replica = secrets.token_hex(8)
        self._describe = describe
        self._sleep = sleep
        self._has_work = asyncio.Event()

    async def read(self) -> None:
        """Read the records of the other replicas at the start. Raise OSError or SharedTextLost."""
        await self._records.read()

    async def load(self, entry: LoadedModel, caller: Caller) -> Operation:
        """Begin to load a model. Raise the errors of `Operations.load`."""
        return await self._begun(await self._operations.load(entry, caller))

    async def wake(self, name: str, caller: Caller) -> Operation:
        """Begin to wake a model. Raise the errors of `Operations.wake`."""
        return await self._begun(self._operations.wake(name, caller))

    async def get(self, operation_id: str, caller: Caller) -> KnownOperation:
        """Return an operation. Raise OperationNotFound, or ChangesUnavailable if the store is lost."""
        try:
            return self._operations.get(operation_id, caller)
        except OperationNotFound:
            if (record := (await self._newest()).find(operation_id, caller.id)) is None:
                raise
            return self._checked(record)

    async def list(self, caller: Caller) -> Sequence[KnownOperation]:
        """Return the operations of a caller, the newest first. Raise ChangesUnavailable if the store is lost."""
        others = [
            self._checked(each)
            for each in (await self._newest()).records
            if each.owner == caller.id and each.replica != self._replica
        ]
        return sorted([*others, *self._operations.list(caller)], key=lambda each: -each.created_ns)

    async def wait(self, operation_id: str, caller: Caller, timeout_s: float) -> KnownOperation:
        """Return an operation when it has ended, or after the timeout. Raise what `get` raises, and EngineClosed."""
        known = await self.get(operation_id, caller)
        if isinstance(known, Operation):
            return await self._operations.wait(operation_id, caller, timeout_s)
        due = time.monotonic() + timeout_s
        while known.state is OperationState.RUNNING and (left_s := due - time.monotonic()) > 0:
            await self._sleep(min(_POLL_S, left_s))
            if self._operations.is_closed:
                raise EngineClosed("the service stopped before the operation had ended")
            known = await self.get(operation_id, caller)
        return known

    async def cancel(self, operation_id: str, caller: Caller) -> KnownOperation:
        """Cancel an operation, and return it when it has ended. Raise what `wait` raises."""
        known = await self.get(operation_id, caller)
        if isinstance(known, Operation):
            return await self._operations.cancel(operation_id, caller)
        if known.state is OperationState.RUNNING:
            try:
                await self._records.store(lambda records: records.cancelled(operation_id))
            except (OSError, SharedTextLost, Outdated) as error:
                raise ChangesUnavailable(_RETRY_S) from error
        return await self.wait(operation_id, caller, KEPT_S)

    async def run(self) -> None:
        """Publish the operations of this replica while one is running, until cancelled."""
        while self._records.is_shared:
            await self._has_work.wait()
            await self._sleep(INTERVAL_S)
            is_running = any(each.state is OperationState.RUNNING for each in self._operations.all())
            if await self._publish() and not is_running:
                self._has_work.clear()

    def end(self) -> None:
        """End the calls that wait, and the operations of this replica: the service stops."""
        self._operations.close()

    def close(self) -> None:
        """End all operations, and release the store."""
        self.end()
        self._records.close()

    async def _begun(self, operation: Operation) -> Operation:
        """Publish an operation that has begun, before its client may ask another replica for it."""
        if self._records.is_shared:
            await self._publish()
            self._has_work.set()
        return operation

    async def _publish(self) -> bool:
        """Publish the operations of this replica. Return whether that succeeded."""
        oldest_ns = time.time_ns() - int(KEPT_S * 1e9)

        def change(records: OperationRecords) -> OperationRecords:
            own = [OperationRecord.of(each, self._replica) for each in self._operations.all()]
            return records.published(own, self._replica, oldest_ns)

        try:
            await self._records.store(change)
        except (OSError, SharedTextLost, Outdated) as error:
            _log.warning("operations can't be published to the other replicas: %s", error)
            return False
        return True

    async def _newest(self) -> OperationRecords:
        """Return the records of all replicas. Raise ChangesUnavailable if the store is lost."""
        try:
            await self._records.refresh()
        except (OSError, SharedTextLost) as error:
            raise ChangesUnavailable(_RETRY_S) from error
        return self._records.newest

    def _take(self, records: OperationRecords) -> None:
        """Note which records are new, and cancel operations of this replica whose end was requested at another one."""
        before, self._published = self._published, {}
        for each in records.records:
            known = before.get(each.id)
            if known is None or known.published_ns != each.published_ns:
                known = _Publication(each.published_ns, self._clock())
            self._published[each.id] = known
        requested = {each.id for each in records.records if each.is_cancelled and each.replica == self._replica}
        for operation in self._operations.all():
            if operation.id in requested:
                operation.load.cancel()

    def _checked(self, record: OperationRecord) -> OperationRecord:
        """Return the record of an operation; one that was lost with its replica has failed.

        That is decided by this replica's clock since it has read the record, whatever the wall clocks of both say.
        """
        if record.state is not OperationState.RUNNING or self._clock() - self._published[record.id].read_at < LOST_S:
            return record
        lost_ns = record.published_ns + int(LOST_S * 1e9)
        error = self._describe(EngineClosed("the service that ran the operation has ended"))
        return record.model_copy(update={"state": OperationState.FAILED, "error": error, "ended_ns": lost_ns})
