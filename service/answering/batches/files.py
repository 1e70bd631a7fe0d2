"""Files of the current caller: upload, read, list and delete them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from sluice.v1 import file_pb2

from service.answering.batches.store_calls import StoreCalls
from service.answering.errors import FileNotFound
from service.calls.call import current_caller
from service.contract.batches.file import to_file
from service.generation.errors import InvalidRequest
from service.storage.responses.batch_port import FileRecord, new_file_id
from service.storage.responses.store_thread import StoreThread

_PART: Final = 1 << 20  # bytes
_PAGE_SIZE: Final = 20  # the default
_CONTENT: Final = "content"
_RESULTS: Final = {file_pb2.FILE_PURPOSE_BATCH: False, file_pb2.FILE_PURPOSE_BATCH_OUTPUT: True}


class Files:
    """The files of callers. Each method raises StoreUnavailable; those with an id FileNotFound."""

    def __init__(self, store: StoreThread | None) -> None:
        """Without a store, none is stored."""
        self._calls = StoreCalls(store)

    async def upload(self, messages: AsyncIterator[file_pb2.UploadFileRequest]) -> file_pb2.File:
        """Store the content of a stream of messages. Raise StoringOff, InvalidRequest or StoreFull."""
        first = await anext(aiter(messages), None)
        if first is None or not first.HasField("description"):
            raise InvalidRequest("description", "must be in the first message of the stream")
        description, owner = first.description, current_caller().id
        now_ns = await self._calls.run(lambda store: store.now_ns(), field="description")
        expires_ns = 0
        if description.HasField("expires_after_seconds"):
            expires_ns = now_ns + description.expires_after_seconds * 1_000_000_000
        file = FileRecord(owner, new_file_id(now_ns), now_ns, description.filename, expires_ns=expires_ns)
        await self._calls.run(
            lambda store: store.files.begin(file),
            lambda store, _: store.files.delete(owner, file.id),
            field="description",
        )
        try:
            lifetime_s = await self._append(file, messages)
            stored = await self._calls.run(
                lambda store: store.files.complete(owner, file.id, lifetime_s),
                lambda store, _: store.files.delete(owner, file.id),
            )
        except BaseException:
            await self._calls.run_steps(lambda store: store.files.delete_steps(owner, file.id))
            raise
        return to_file(stored)

    async def _append(self, file: FileRecord, messages: AsyncIterator[file_pb2.UploadFileRequest]) -> int | None:
        """Store the content of messages in parts. Return the seconds until the file expires, if they follow it."""
        data = bytearray()
        last: file_pb2.FileDescription | None = None

        async def flush(least: int) -> None:
            while len(data) >= least and data:
                part = bytes(data[:_PART])
                await self._calls.run(lambda store: store.files.append(file.owner, file.id, part), field=_CONTENT)  # noqa: B023  awaited here
                del data[: len(part)]

        async for message in messages:
            if last is not None or message.WhichOneof("part") is None:
                raise InvalidRequest(_CONTENT, "must be in all messages of the stream but the first and the last")
            if message.HasField("description"):
                last = message.description
            data += message.content
            await flush(_PART)
        await flush(1)
        return last.expires_after_seconds if last is not None and last.HasField("expires_after_seconds") else None

    async def get(self, file_id: str) -> file_pb2.File:
        """Return a file."""
        return to_file(await self._record(file_id))

    async def list(self, request: file_pb2.ListFilesRequest) -> file_pb2.ListFilesResponse:
        """Return a page of files. Raise InvalidRequest if it begins after none of them."""
        if not self._calls.is_on:
            return file_pb2.ListFilesResponse()
        owner, results = current_caller().id, _RESULTS.get(request.purpose)
        size = request.page_size if request.HasField("page_size") else _PAGE_SIZE
        after = request.after or request.page_token
        field = "after" if request.after else "page_token"
        found = await self._calls.run(
            lambda store: store.files.list(owner, size + 1, after, descending=request.descending, results=results),
            field=field,
        )
        files, has_more = list(map(to_file, found[:size])), len(found) > size
        token = files[-1].id if has_more else ""
        return file_pb2.ListFilesResponse(files=files, has_more=has_more, next_page_token=token)

    async def delete(self, file_id: str) -> None:
        """Delete a file."""
        owner = current_caller().id
        steps = self._calls.run_steps
        if not self._calls.is_on or not await steps(lambda store: store.files.delete_steps(owner, file_id)):
            raise FileNotFound("id")

    async def record_size(self, file_id: str, num_bytes: int) -> None:
        """Store the size of a file with results of a batch. Raise InvalidRequest for an uploaded file."""
        file = await self._record(file_id)
        if not file.batch_id:
            raise InvalidRequest("id", "this file has content of its own, whose size is known")
        await self._calls.run(lambda store: store.files.record_size(file.owner, file.id, num_bytes))

    async def content(self, file_id: str) -> AsyncGenerator[bytes, None]:
        """Yield the parts of an uploaded file. Raise InvalidRequest for a file with results of a batch.

        Raise FileNotFound also at the end if the file was deleted or has expired meanwhile.
        """
        file = await self._record(file_id)
        if file.batch_id:
            raise InvalidRequest("id", "this file has results of a batch, which StreamBatchResults returns")
        index = num_bytes = 0
        while num_bytes < file.num_bytes:
            part = await self._calls.run(lambda store: store.files.part(file.owner, file_id, index))  # noqa: B023  awaited here
            if part is None:
                raise FileNotFound("id")
            yield part
            num_bytes += len(part)
            index += 1

    async def _record(self, file_id: str) -> FileRecord:
        owner = current_caller().id
        file = await self._calls.run(lambda store: store.files.get(owner, file_id)) if self._calls.is_on else None
        if file is None:
            raise FileNotFound("id")
        return file
