"""The operations of all callers: begun, listed, awaited and cancelled. They are kept in memory.

It is used on the event loop only.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from service.deployment.changes import LoadedModel
from service.deployment.operations.operation import Operation, OperationError, OperationKind, OperationState
from service.engine.interface.running_load import LoadCancelled
from service.generation.caller import Caller
from service.generation.errors import EngineClosed, ServiceError
from service.registry.errors import OperationNotFound, TooManyOperations

MAX_RUNNING: Final = 16  # operations of a caller that have not ended; more are rejected
MAX_ENDED: Final = 100  # operations of a caller that are kept after their end
KEPT_S: Final = 3600  # after the end

_log = logging.getLogger(__name__)


class ModelLoads(Protocol):
    """What operations do: `ModelChanges`."""

    async def check_load(self, entry: LoadedModel, caller: Caller) -> None:
        """Raise the error of `load_model` if it is known before the load."""

    async def load_model(self, entry: LoadedModel, caller: Caller, operation: Operation) -> Any:
        """Load and serve a model. Raise LoadCancelled if the operation is cancelled."""

    def check_wake(self, name: str, caller: Caller) -> None:
        """Raise the error of `wake` if it is known before."""

    async def wake(self, name: str, caller: Caller, operation: Operation) -> None:
        """Load a sleeping model again. Raise LoadCancelled if the operation is cancelled."""


class Operations:
    """Loads and wakes models in the background, for callers that may cancel it."""

    def __init__(
        self,
        changes: ModelLoads,
        describe: Callable[[Exception], OperationError],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`describe` describes the errors of operations."""
        self._changes = changes
        self._describe = describe
        self._clock = clock
        self._operations: dict[str, Operation] = {}  # by id, oldest first
        self._ended: dict[str, float] = {}  # by id, the time of the end by the clock, in this order
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = asyncio.Event()

    @property
    def is_closed(self) -> bool:
        """Whether the service stops."""
        return self._closed.is_set()

    def all(self) -> Sequence[Operation]:
        """Return the operations of all callers, the oldest first."""
        self._forget()
        return [*self._operations.values()]

    async def load(self, entry: LoadedModel, caller: Caller) -> Operation:
        """Begin to load a model. Raise TooManyOperations, and the errors of a load that are known at once."""
        await self._changes.check_load(entry, caller)
        operation = Operation(caller.id, OperationKind.LOAD, entry.name)
        return self._begin(operation, partial(self._changes.load_model, entry, caller, operation))

    def wake(self, name: str, caller: Caller) -> Operation:
        """Begin to wake a model. Raise TooManyOperations or ModelNotFound."""
        self._changes.check_wake(name, caller)
        operation = Operation(caller.id, OperationKind.WAKE, name)
        return self._begin(operation, partial(self._changes.wake, name, caller, operation))

    def get(self, operation_id: str, caller: Caller) -> Operation:
        """Return an operation. Raise OperationNotFound if the caller has none of this id."""
        self._forget()
        operation = self._operations.get(operation_id)
        if operation is None or operation.owner != caller.id:
            raise OperationNotFound
        return operation

    def list(self, caller: Caller) -> Sequence[Operation]:
        """Return the operations of a caller, the newest first."""
        self._forget()
        return [each for each in reversed(self._operations.values()) if each.owner == caller.id]

    async def wait(self, operation_id: str, caller: Caller, timeout_s: float) -> Operation:
        """Return an operation when it has ended, or after the timeout. Raise OperationNotFound or EngineClosed."""
        operation = self.get(operation_id, caller)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._until_ended(operation)
        return operation

    async def cancel(self, operation_id: str, caller: Caller) -> Operation:
        """Cancel an operation, and return it when it has ended. Raise OperationNotFound or EngineClosed."""
        operation = self.get(operation_id, caller)
        operation.load.cancel()
        await self._until_ended(operation)
        return operation

    def close(self) -> None:
        """End the calls that wait, and forget the operations: the service stops."""
        self._closed.set()
        for task in self._tasks:
            task.cancel()

    def _begin(self, operation: Operation, work: Callable[[], Awaitable[object]]) -> Operation:
        """Run an operation. Raise TooManyOperations."""
        if sum(each.state is OperationState.RUNNING for each in self._of(operation.owner)) >= MAX_RUNNING:
            raise TooManyOperations(MAX_RUNNING)
        self._operations[operation.id] = operation
        task = asyncio.create_task(self._run(operation, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return operation

    async def _run(self, operation: Operation, work: Callable[[], Awaitable[object]]) -> None:
        """Run an operation to its end, and record how it ended."""
        fields = {"operation": operation.id, "model": operation.model}
        try:
            await work()
        except LoadCancelled:
            operation.end(OperationState.CANCELLED)
            _log.info("operation was cancelled", extra={"fields": fields})
        except Exception as error:  # noqa: BLE001  it is reported to the caller of the operation
            is_known = isinstance(error, ServiceError)
            _log.error("operation failed: %s", error, exc_info=None if is_known else error, extra={"fields": fields})
            operation.end(OperationState.FAILED, self._describe(error))
        else:
            operation.end(OperationState.SUCCEEDED)
        self._ended[operation.id] = self._clock()
        ended = [each for each in self._of(operation.owner) if each.state is not OperationState.RUNNING]
        for each in sorted(ended, key=lambda each: self._ended[each.id])[:-MAX_ENDED]:
            self._remove(each.id)

    def _of(self, owner: str) -> Sequence[Operation]:
        """Return the operations of an owner, the oldest first."""
        return [each for each in self._operations.values() if each.owner == owner]

    def _forget(self) -> None:
        """Remove the operations that ended too long ago."""
        latest = self._clock() - KEPT_S
        for operation_id in [each for each, ended in self._ended.items() if ended <= latest]:
            self._remove(operation_id)

    def _remove(self, operation_id: str) -> None:
        del self._operations[operation_id], self._ended[operation_id]

    async def _until_ended(self, operation: Operation) -> None:
        """Return when an operation has ended. Raise EngineClosed if the service stops before."""
        events = [asyncio.ensure_future(each.wait()) for each in (operation.ended, self._closed)]
        try:
            await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in events:
                each.cancel()
        if not operation.ended.is_set():
            raise EngineClosed("the service stopped before the operation had ended")
