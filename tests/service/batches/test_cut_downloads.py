"""Files and results that are deleted while they are downloaded: the stream doesn't end as if it were complete."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sluice.v1 import batch_pb2, file_pb2

from service.answering.background.caller_snapshot import to_bytes
from service.answering.batches.batches import Batches
from service.answering.batches.files import Files
from service.answering.errors import BatchNotFound, FileNotFound
from service.generation.caller import ANONYMOUS
from service.server.stores import described_line
from service.storage.responses.batch_port import BatchRecord, FileRecord, LineResult, LineState, NewLine
from service.storage.responses.port import ResponseStore, StoreLimits
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from service.storage.responses.store_thread import StoreThread
from tests.service.batches.batch_calls import chat_line
from tests.waiting import GUARD_S

NUM = 100  # lines: more than the service reads at once


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[StoreThread]:
    thread = StoreThread(
        lambda: SqliteStore(folder / "responses.sqlite3", StoreLimits(3600, 1 << 20, 1 << 20)), GUARD_S
    )
    yield thread
    await thread.close()


def upload(store: ResponseStore) -> None:
    store.batches.files.begin(FileRecord("", "f", store.now_ns(), "a.jsonl"))
    for part in (b"first", b"second"):
        store.batches.files.append("", "f", part)
    store.batches.files.complete("", "f")


def fill(store: ResponseStore) -> None:
    """Store a batch that has ended, whose requests have succeeded but for the last one."""
    now_ns = store.now_ns()
    store.batches.begin(BatchRecord("", "b", now_ns, now_ns + 3600 * 10**9, b"", to_bytes(ANONYMOUS)))
    lines = [NewLine(chat_line(str(number)).SerializeToString()) for number in range(NUM)]
    store.batches.append("", "b", lines)
    store.batches.complete("", "b", b"")
    claimed = store.batches.claim("holder", 60.0, NUM)
    assert len(claimed) == NUM
    states = [LineState.SUCCEEDED] * (NUM - 1) + [LineState.FAILED]
    results = [LineResult(line.key, state, b"", b"") for line, state in zip(claimed, states, strict=True)]
    store.batches.finish("holder", results)


async def test_deleted_file(tmp_path: Path) -> None:
    async with opened(tmp_path) as thread:
        await thread.run(upload)
        assert [part async for part in Files(thread).content("f")] == [b"first", b"second"]
        parts = Files(thread).content("f")
        assert await anext(parts) == b"first"
        await Files(thread).delete("f")
        with pytest.raises(FileNotFound):
            await anext(parts)


async def read(thread: StoreThread, outcome: Any, change: Callable[[ResponseStore], object]) -> int:
    """Read results, with a change of the store after the first one, and return their number."""
    batches = Batches(thread, None, lambda _: None, described_line)
    request = batch_pb2.StreamBatchResultsRequest(id="b", outcome=outcome)
    number = 0
    async for _ in batches.results(request):
        if not number:
            await thread.run(change)
        number += 1
    return number


@pytest.mark.parametrize(
    ("outcome", "deleted", "error"),
    [
        ("SUCCEEDED", "b", BatchNotFound),
        ("SUCCEEDED", "b-output", FileNotFound),
        ("SUCCEEDED", "b-errors", None),
        ("FAILED", "b-errors", FileNotFound),
        ("UNSPECIFIED", "b-errors", FileNotFound),
    ],
)
async def test_deleted_results(tmp_path: Path, outcome: str, deleted: str, error: type[Exception] | None) -> None:
    """The deletion of results that are not read is none of the reader's."""
    value = file_pb2.BatchOutcome.Value(f"BATCH_OUTCOME_{outcome}")
    async with opened(tmp_path) as thread:
        await thread.run(fill)

        def delete(store: ResponseStore) -> bool:
            return store.batches.delete("", "b") if deleted == "b" else store.batches.files.delete("", deleted)

        if error is None:
            assert await read(thread, value, delete) == NUM - 1
        else:
            with pytest.raises(error):
                await read(thread, value, delete)


async def test_results_that_were_deleted_before_are_left_out(tmp_path: Path) -> None:
    async with opened(tmp_path) as thread:
        await thread.run(fill)
        await thread.run(lambda store: store.batches.files.delete("", "b-errors"))
        assert await read(thread, batch_pb2.StreamBatchResultsRequest().outcome, lambda _: None) == NUM - 1
