"""Large files, batches and conversations are deleted in steps, with other calls in between, and leave nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.storage.responses.batch_port import BatchRecord, FileRecord, NewLine
from service.storage.responses.port import Addition, ConversationRecord, ItemRecord, ResponseRecord, StoreLimits
from service.storage.responses.sql.store import SqlStore
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from service.storage.responses.store_thread import StoreThread
from tests.service.storage.store_locations import StoreLocation
from tests.service.storage.test_response_store import SECOND_NS, Clock
from tests.waiting import GUARD_S

SECRET = b"a secret of the content"
PART = SECRET.ljust(1 << 20, b".")
NUM_PARTS = 12  # three times what one step deletes
LIMITS = StoreLimits(60, 1 << 30, 1 << 30)
TABLES = {"conversations": "items", "files": "file_parts", "batches": "batch_lines"}
Steps = Callable[[SqlStore], Iterator[bool]]
STEPS: dict[str, Steps] = {
    "conversations": lambda store: store.conversations.delete_steps("a", "x"),
    "files": lambda store: store.batches.files.delete_steps("a", "x"),
    "batches": lambda store: store.batches.delete_steps("a", "x"),
}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(location: StoreLocation, clock: Clock) -> Iterator[SqlStore]:
    store = location.open(LIMITS, clock, running_ns=clock)
    yield store
    store.close()


def upload(store: SqlStore, *, is_complete: bool = True) -> None:
    """Store a batch."""
    now_ns = store.now_ns()
    store.batches.begin(BatchRecord("a", "x", now_ns, now_ns + 3600 * SECOND_NS, b"", b"", b"upload"))
    store.batches.append("a", "x", [NewLine(PART)] * NUM_PARTS, upload=b"upload")
    if is_complete:
        store.batches.complete("a", "x", b"digest", upload=b"upload")


def fill(store: SqlStore, table: str) -> None:
    """Store an object with much content."""
    now_ns = store.now_ns()
    if table == "conversations":
        store.conversations.create(ConversationRecord("a", "x", now_ns, b""), [])
        for number in range(NUM_PARTS):
            store.conversations.add("a", Addition("x", [ItemRecord(str(number), PART)]))
    elif table == "files":
        store.batches.files.begin(FileRecord("a", "x", now_ns, "name"))
        for _ in range(NUM_PARTS):
            store.batches.files.append("a", "x", PART)
        store.batches.files.complete("a", "x")
    else:
        upload(store)


def exists(store: SqlStore, table: str) -> bool:
    getters = {"conversations": store.conversations.get, "files": store.batches.files.get, "batches": store.batches.get}
    return getters[table]("a", "x") is not None


def check_nothing_is_left(store: SqlStore, location: StoreLocation, table: str) -> None:
    assert (location.count(table), location.count(TABLES[table])) == (0, 0)
    assert location.traces(SECRET) == []
    fill(store, table)  # it doesn't count against the limits, and the id is free


@pytest.mark.parametrize("table", TABLES)
def test_deletion_has_steps(store: SqlStore, location: StoreLocation, table: str) -> None:
    fill(store, table)
    assert exists(store, table)
    numbers = []
    for was_there in STEPS[table](store):
        assert was_there
        assert not exists(store, table)
        numbers.append(location.count(TABLES[table]))
        store.put(ResponseRecord("b", f"r{len(numbers)}", store.now_ns(), "", b"request", b"response"))
    assert numbers == sorted(numbers, reverse=True)
    assert max(before - after for before, after in zip([NUM_PARTS, *numbers], numbers, strict=False)) <= 4
    check_nothing_is_left(store, location, table)


@pytest.mark.parametrize("table", TABLES)
def test_nothing_is_deleted_twice(store: SqlStore, table: str) -> None:
    fill(store, table)
    assert list(STEPS[table](store))[-1] is True
    assert list(STEPS[table](store))[-1] is False


@pytest.mark.parametrize("table", TABLES)
def test_purge_deletes_what_a_process_left(store: SqlStore, location: StoreLocation, table: str) -> None:
    """The process dies after the first step."""
    fill(store, table)
    next(STEPS[table](store))
    assert 0 < location.count(TABLES[table]) < NUM_PARTS
    store.purge()
    check_nothing_is_left(store, location, table)


@pytest.mark.parametrize("table", TABLES)
def test_purge_has_steps(store: SqlStore, clock: Clock, location: StoreLocation, table: str) -> None:
    fill(store, table)
    clock.now_ns += 61 * SECOND_NS
    numbers = [location.count(TABLES[table]) for _ in store.purge_steps()]
    assert max(before - after for before, after in zip([NUM_PARTS, *numbers], numbers, strict=False)) <= 4
    check_nothing_is_left(store, location, table)


def test_abandoned_upload_is_deleted_in_steps(store: SqlStore, location: StoreLocation) -> None:
    upload(store, is_complete=False)
    assert list(store.batches.abandon("a", "x", b"another")) == [False]
    assert location.count("batch_lines") == NUM_PARTS
    assert len(list(store.batches.abandon("a", "x", b"upload"))) > NUM_PARTS / 4
    check_nothing_is_left(store, location, "batches")


@pytest.mark.parametrize("way", ["delete", "purge"])
def test_new_batch_of_the_same_id_is_kept(store: SqlStore, clock: Clock, location: StoreLocation, way: str) -> None:
    """A client may create a batch again with its id as soon as the old one doesn't exist."""
    upload(store)
    if way == "purge":
        clock.now_ns += 61 * SECOND_NS
    steps: Iterator[object] = store.batches.delete_steps("a", "x") if way == "delete" else store.purge_steps()
    next(steps)
    upload(store)
    for _ in steps:
        assert location.count("batch_lines") == NUM_PARTS
    assert exists(store, "batches")


async def test_other_calls_are_made_between_steps(tmp_path: Path) -> None:
    thread = StoreThread(lambda: SqliteStore(tmp_path / "responses.sqlite3", LIMITS), GUARD_S)
    made: list[str] = []

    def steps(_: object) -> Iterator[int]:
        for number in range(3):
            made.append("step")
            yield number

    deletion = thread.run_steps(steps)

    async def others() -> None:
        while "end" not in made:
            await thread.run(lambda _: made.append("other"))

    async def whole() -> None:
        assert await deletion == 2
        made.append("end")

    await asyncio.gather(whole(), others())
    await thread.close()
    first, last = made.index("step"), len(made) - 1 - made[::-1].index("step")
    assert made[first:last].count("other") >= 2
