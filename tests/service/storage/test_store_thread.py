"""The thread of the store of responses: results, time limits, late changes and the end."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from service.storage.responses.port import (
    ResponseRecord,
    ResponseStore,
    StoreFailed,
    StoreLimit,
    StoreLimits,
    StoreUnavailable,
)
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from service.storage.responses.store_thread import StoreThread
from tests.engine.fakes import until
from tests.waiting import GUARD_S

RECORD = ResponseRecord("a", "r1", 1 << 62, "", b"question", b"answer")


def store_in(folder: Path) -> SqliteStore:
    return SqliteStore(folder / "responses.sqlite3", StoreLimits(3600, 1000, 1000))


def files_in(folder: Path, text: bytes = b"") -> list[str]:
    """Return the names of the files that contain a text."""
    return [path.name for path in folder.iterdir() if text in path.read_bytes()]


class Gate:
    """A store whose writes wait until the test lets them pass."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.entered = threading.Event()
        self.open = threading.Event()

    def put(self, record: ResponseRecord) -> None:
        self.entered.set()
        assert self.open.wait(GUARD_S)
        self._store.put(record)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_calls_return_what_the_store_returns_and_raises(tmp_path: Path) -> None:
    """Results and errors pass through; the store is closed at the end."""
    thread = StoreThread(lambda: store_in(tmp_path), GUARD_S)
    before_ns = time.time_ns()
    await thread.put(RECORD)
    found = await thread.run(lambda store: store.get("a", "r1"))
    assert found is not None
    assert before_ns <= found.created_ns <= time.time_ns()  # the store's time, not that of the process
    assert found == replace(RECORD, created_ns=found.created_ns)
    with pytest.raises(StoreLimit):
        await thread.put(ResponseRecord("a", "r2", 0, "", bytes(1001), b""))
    await thread.close()
    assert files_in(tmp_path) == ["responses.sqlite3"]


async def hanging(folder: Path, timeout_s: float) -> tuple[Gate, StoreThread]:
    """Return a store whose write has exceeded the time limit, and its thread."""
    gate = Gate(store_in(folder))
    thread = StoreThread(lambda: gate, timeout_s)
    with pytest.raises(StoreFailed, match=f"did not answer within {timeout_s:g} s"):
        await thread.put(RECORD)
    return gate, thread


async def test_call_after_the_time_limit_fails_and_its_late_change_is_undone(tmp_path: Path) -> None:
    """A write that takes too long fails; calls after it fail at once; later nothing of it is stored, and calls pass."""
    timeout_s = 0.05
    gate, thread = await hanging(tmp_path, timeout_s)
    while not gate.entered.is_set():  # a write that had not begun within the limit proves nothing
        timeout_s *= 2
        gate.open.set()
        await thread.close()
        gate, thread = await hanging(tmp_path, timeout_s)
    with pytest.raises(StoreFailed, match="does not answer"):
        await thread.run(lambda store: store.get("a", "r1"))
    gate.open.set()

    async def is_back() -> bool:
        try:
            return await thread.run(lambda store: store.get("a", "r1")) is None
        except StoreFailed:
            return False

    async with asyncio.timeout(GUARD_S):
        while not await is_back():  # noqa: ASYNC110  the store is asked, as the next call would
            await asyncio.sleep(0.01)
    await thread.close()


async def test_undoing_of_a_late_call_gets_its_result(tmp_path: Path) -> None:
    """A call that has only found something, and changed nothing, can be left as it is."""
    thread = StoreThread(lambda: store_in(tmp_path), GUARD_S)
    entered, may_end = threading.Event(), threading.Event()
    results: list[str] = []

    def find(_: ResponseStore) -> str:
        entered.set()
        assert may_end.wait(GUARD_S)
        return "found"

    call = asyncio.create_task(thread.run(find, lambda _, found: results.append(found)))
    await until(entered.is_set)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    may_end.set()
    await thread.run(lambda store: store.get("a", "r1"))
    assert results == ["found"]
    await thread.close()


async def test_other_calls_are_made_between_the_steps_of_a_purge(tmp_path: Path) -> None:
    """A purge of much that has expired keeps no other call waiting until its end."""
    store = SqliteStore(tmp_path / "responses.sqlite3", StoreLimits(3600, 1 << 20, 1 << 20))
    for number in range(200):
        store.put(ResponseRecord("a", f"r{number}", 1, "", b"", b""))
    thread = StoreThread(lambda: store, GUARD_S)
    purging = asyncio.create_task(thread.purge_regularly())
    with closing(sqlite3.connect(tmp_path / "responses.sqlite3", check_same_thread=False)) as reader:

        def num_left(_: ResponseStore) -> int:
            number: int = reader.execute("SELECT count(*) FROM responses").fetchone()[0]
            return number

        left = [await thread.run(num_left)]
        while left[-1]:
            left.append(await thread.run(num_left))
    assert any(0 < number < 200 for number in left)
    purging.cancel()
    await thread.close()


async def test_response_of_a_disconnected_client_is_not_stored(tmp_path: Path) -> None:
    """A write whose call is cancelled is undone when it ends, and one that had not begun is never made."""
    gate = Gate(store_in(tmp_path))
    thread = StoreThread(lambda: gate, GUARD_S)
    calls = [asyncio.create_task(thread.put(RECORD))]
    await until(gate.entered.is_set)
    calls.append(asyncio.create_task(thread.put(ResponseRecord("a", "r2", 1 << 62, "", b"", b""))))
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    gate.open.set()
    assert await thread.run(lambda store: [store.get("a", "r1"), store.get("a", "r2")]) == [None, None]
    await thread.close()


async def test_expired_responses_are_purged(tmp_path: Path) -> None:
    """The regular purge begins at once."""
    store = store_in(tmp_path)
    store.put(ResponseRecord("a", "expired-1", 1, "", b"", b""))
    thread = StoreThread(lambda: store, GUARD_S)
    purging = asyncio.create_task(thread.purge_regularly())
    while await thread.run(lambda store: store.purge()):
        pass
    purging.cancel()
    await thread.close()
    assert files_in(tmp_path, b"expired-1") == []


async def test_store_on_a_full_disk_is_opened_later(tmp_path: Path) -> None:
    """Calls fail until the disk can be used; then they pass. Other failures of the start are raised."""
    failures: list[Exception] = [StoreUnavailable("disk full"), StoreUnavailable("disk full")]

    def open_store() -> SqliteStore:
        if failures:
            raise failures.pop()
        return store_in(tmp_path)

    thread = StoreThread(open_store, GUARD_S)
    with pytest.raises(StoreFailed, match="disk full"):
        await thread.put(RECORD)
    await thread.put(RECORD)
    await thread.close()
    failures.append(StoreFailed("is encrypted"))
    with pytest.raises(StoreFailed, match="is encrypted"):
        StoreThread(open_store, GUARD_S)
