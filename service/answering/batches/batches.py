"""Batches of the current caller: create, read, list, cancel and delete them."""

from __future__ import annotations

import hashlib
import secrets
import time
import uuid
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from typing import Any, Final

from google.protobuf.message import Message
from sluice.v1 import batch_pb2

from service.answering.background.caller_snapshot import to_bytes
from service.answering.batches.batch_runner import BatchRunner
from service.answering.batches.new_lines import Describe, NewLines
from service.answering.batches.store_calls import StoreCalls
from service.answering.errors import BatchExpired, BatchNotFound, FileNotFound
from service.calls.call import current_caller
from service.contract.batches.batch import STATES, Result, to_batch, to_result
from service.generation.errors import InvalidRequest
from service.storage.responses.batch_port import BatchRecord, BatchStore, LineState
from service.storage.responses.store_thread import StoreThread

_WINDOW_S: Final = 86_400  # the default
_PAGE_SIZE: Final = 20  # the default
_NUM_RESULTS: Final = 64  # that are read together
_NUM_STORED: Final = 256  # lines that are stored together; other calls of the store wait for them
_ID_SIZE: Final = 16  # bytes


class Batches:
    """The batches of callers. Each method raises StoreUnavailable; those with an id BatchNotFound."""

    def __init__(
        self,
        store: StoreThread | None,
        runner: BatchRunner | None,
        check: Callable[[Message], None],
        describe: Describe,
    ) -> None:
        """Without a store, none is stored. `check` raises for messages that violate a rule of the contract.

        `runner` answers the lines. `describe` returns an error in the form in which it is stored.
        """
        self._calls = StoreCalls(store)
        self._runner = runner
        self._check = check
        self._describe = describe

    async def create(self, messages: AsyncIterator[batch_pb2.CreateBatchRequest]) -> batch_pb2.Batch:
        """Store a batch. Raise StoringOff, InvalidRequest, ScopeMissing or StoreFull."""
        first = await anext(aiter(messages), None)
        if first is None or not first.HasField("description"):
            raise InvalidRequest("description", "must be in the first message of the stream")
        self._check(first)
        description, caller, now_ns = first.description, current_caller(), time.time_ns()
        window_s = description.completion_window_seconds or _WINDOW_S
        batch = BatchRecord(
            owner=caller.id,
            id=_batch_id(caller.id, description.request_id),
            created_ns=now_ns,
            expires_ns=now_ns + window_s * 1_000_000_000,
            description=description.SerializeToString(),
            caller=to_bytes(caller),
            digest=secrets.token_bytes(_ID_SIZE),  # of this upload, among those of the same request
            results_lifetime_s=description.output_expires_after_seconds,
        )
        key = (batch.owner, batch.id)

        def undo(store: BatchStore, existing: BatchRecord | None) -> None:
            if existing is None:
                deque(store.abandon(*key, batch.digest), maxlen=0)

        existing = await self._calls.run(
            lambda store: store.begin(batch.dated(store.now_ns())), undo, field="description"
        )
        digest = hashlib.blake2b(description.SerializeToString(deterministic=True))
        if existing is not None:
            await self._append(existing, messages, digest, is_stored=True)
            if existing.digest != digest.digest():
                raise _of_another_request()
            return to_batch(existing)
        try:
            await self._append(batch, messages, digest, is_stored=False)
            stored = await self._calls.run(
                lambda store: store.complete(*key, digest.digest(), upload=batch.digest),
                lambda store, _: store.delete(*key),
            )
        except BaseException:
            await self._calls.run_steps(lambda store: store.abandon(*key, batch.digest))
            raise
        if self._runner is not None:
            self._runner.wake()
        return to_batch(stored)

    async def _append(
        self,
        batch: BatchRecord,
        messages: AsyncIterator[batch_pb2.CreateBatchRequest],
        digest: Any,
        *,
        is_stored: bool,
    ) -> None:
        """Store the lines of messages, unless the batch has its lines already, and add them to the digest."""
        converter = NewLines(self._check, self._describe)
        async for message in messages:
            if not message.HasField("requests"):
                raise InvalidRequest("requests", "must be in all messages of the stream but the first")
            given = message.requests.lines
            if is_stored and converter.num_lines + len(given) > batch.num_lines:
                raise _of_another_request()
            for begin in range(0, len(given), _NUM_STORED):
                lines = await converter.convert_all(given[begin : begin + _NUM_STORED])
                for line in lines:
                    digest.update(line.request)
                if not is_stored:
                    await self._calls.run(
                        lambda store: store.append(batch.owner, batch.id, lines, upload=batch.digest),  # noqa: B023  awaited here
                        field="requests",
                    )
        if converter.num_lines == 0:
            raise InvalidRequest("requests", "a batch needs at least one request")

    async def get(self, batch_id: str) -> batch_pb2.Batch:
        """Return a batch."""
        return to_batch(await self._record(batch_id))

    async def list(self, request: batch_pb2.ListBatchesRequest) -> batch_pb2.ListBatchesResponse:
        """Return a page of batches. Raise InvalidRequest if it begins after none of them."""
        if not self._calls.is_on:
            return batch_pb2.ListBatchesResponse()
        owner, size = current_caller().id, request.page_size if request.HasField("page_size") else _PAGE_SIZE
        after = request.after or request.page_token
        field = "after" if request.after else "page_token"
        found = await self._calls.run(lambda store: store.list(owner, size + 1, after), field=field)
        batches, has_more = list(map(to_batch, found[:size])), len(found) > size
        token = batches[-1].id if has_more else ""
        return batch_pb2.ListBatchesResponse(batches=batches, has_more=has_more, next_page_token=token)

    async def cancel(self, batch_id: str) -> batch_pb2.Batch:
        """Stop a batch, and return it."""
        record = await self._record(batch_id)
        key = (record.owner, record.id)
        cancelled = await self._calls.run_steps(lambda store: store.cancel_steps(*key))
        if cancelled is None:
            raise BatchNotFound("id")
        self._stop(key)
        return to_batch(cancelled)

    async def delete(self, batch_id: str) -> None:
        """Stop and delete a batch."""
        key = (current_caller().id, batch_id)
        if not self._calls.is_on or not await self._calls.run_steps(lambda store: store.delete_steps(*key)):
            raise BatchNotFound("id")
        self._stop(key)

    async def results(self, request: batch_pb2.StreamBatchResultsRequest) -> AsyncGenerator[Result, None]:
        """Yield the results of a batch so far, in order.

        Raise BatchNotFound or FileNotFound at the end if some of them were deleted or have expired meanwhile.
        """
        record = await self._record(request.id)
        expired = self._describe(BatchExpired())
        key, states, after = (record.owner, record.id), STATES[request.outcome], -1
        files = await self._calls.run(lambda store: _stored_files(store, record, states))
        while True:
            found = await self._calls.run(
                lambda store: store.results(*key, after, states, _NUM_RESULTS)  # noqa: B023  awaited here
            )
            for ended in found:
                yield to_result(ended, expired)
                after = ended.index
            if len(found) < _NUM_RESULTS:
                break
        record = await self._record(request.id)
        if not files <= await self._calls.run(lambda store: _stored_files(store, record, states)):
            raise FileNotFound("id")

    def _stop(self, key: tuple[str, str]) -> None:
        if self._runner is not None:
            self._runner.abandon(key)

    async def _record(self, batch_id: str) -> BatchRecord:
        owner = current_caller().id
        batch = await self._calls.run(lambda store: store.get(owner, batch_id)) if self._calls.is_on else None
        if batch is None:
            raise BatchNotFound("id")
        return batch


def _of_another_request() -> InvalidRequest:
    return InvalidRequest("description.request_id", "is the id of another request")


def _stored_files(store: BatchStore, batch: BatchRecord, states: Collection[LineState]) -> set[str]:
    """Return the ids of the files with a batch's results in these states that were not deleted and have not expired."""
    has_kind = {False: LineState.SUCCEEDED in states, True: LineState.FAILED in states}
    ids = (batch.results_file(is_of_errors=is_of_errors) for is_of_errors in has_kind if has_kind[is_of_errors])
    return {file_id for file_id in ids if file_id and store.files.get(batch.owner, file_id) is not None}


def _batch_id(owner: str, request_id: str) -> str:
    """Return the id of a batch: the same for the same id of a request of the same owner."""
    if not request_id:
        return uuid.uuid4().hex
    return hashlib.blake2b(f"batch\0{owner}\0{request_id}".encode(), digest_size=_ID_SIZE).hexdigest()
