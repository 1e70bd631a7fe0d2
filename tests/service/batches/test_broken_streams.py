"""Streams of requests that break: what they have sent so far is not taken for the whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from grpc import aio
from sluice.v1 import batch_pb2, file_pb2

from service.answering.batches.batches import Batches
from service.answering.batches.files import Files
from service.server.stores import described_line
from service.servicers.batch import BatchServicer
from service.servicers.file import FileServicer
from service.storage.responses.port import StoreLimits
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from service.storage.responses.store_thread import StoreThread
from tests.service.batches.batch_calls import chat_line, messages
from tests.waiting import GUARD_S

FILE = [
    file_pb2.UploadFileRequest(description=file_pb2.FileDescription(filename="a", purpose=file_pb2.FILE_PURPOSE_BATCH)),
    file_pb2.UploadFileRequest(content=b"a part of the file"),
]


class Connection:
    """The context of a call whose connection may be broken."""

    def __init__(self, *, is_broken: bool) -> None:
        self._is_broken = is_broken

    async def send_initial_metadata(self, _: Any) -> None:
        if self._is_broken:
            raise aio.InternalError("Failed 'send_initial_metadata'")


async def iterated(requests: list[Any]) -> AsyncIterator[Any]:
    """Yield requests, and end, as gRPC's library does also when a connection breaks."""
    for request in requests:
        yield request


@pytest.mark.parametrize("kind", ["batch", "file"])
async def test_broken_stream_creates_nothing(tmp_path: Path, kind: str) -> None:
    """The call ends as a cancelled one, and the same call on another connection creates all of it."""
    store = SqliteStore(tmp_path / "responses.sqlite3", StoreLimits(3600, 1 << 20, 1 << 20))
    thread = StoreThread(lambda: store, GUARD_S)
    batches, files = Batches(thread, None, lambda _: None, described_line), Files(thread)

    async def send(requests: list[Any], *, is_broken: bool) -> Any:
        context: Any = Connection(is_broken=is_broken)
        if kind == "batch":
            return (await BatchServicer(batches).CreateBatch(iterated(requests), context)).batch
        return (await FileServicer(files).UploadFile(iterated(requests), context)).file

    whole = messages([chat_line("a"), chat_line("b")], request_id="r1") if kind == "batch" else FILE
    partial = messages([chat_line("a")], request_id="r1") if kind == "batch" else FILE
    async with asyncio.timeout(GUARD_S):
        with pytest.raises(asyncio.CancelledError):
            await send(partial, is_broken=True)
        assert not (await batches.list(batch_pb2.ListBatchesRequest())).batches
        assert not (await files.list(file_pb2.ListFilesRequest())).files
        created = await send(whole, is_broken=False)
        assert created.id
        assert kind == "file" or created.num_requests == 2
        await thread.close()
