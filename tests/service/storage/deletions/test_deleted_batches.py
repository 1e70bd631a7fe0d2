"""Listings of batches, and of files with their results, that continue after a batch that was deleted meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from service.storage.responses.batch_port import BatchLimits, BatchRecord, LineResult, LineState, NewLine
from service.storage.responses.port import StoreLimits, UnknownItem
from service.storage.responses.sql.deleted_batches import MAX_DELETED
from service.storage.responses.sql.store import SqlStore
from tests.service.storage.store_locations import StoreLocation
from tests.service.storage.test_response_store import SECOND_NS, Clock

AGE_S = 3600
LIMITS = StoreLimits(AGE_S, 1 << 20, 1 << 20)
BATCH_LIMITS = BatchLimits(9, MAX_DELETED + 9, 9, 1 << 20, 1 << 20, 1 << 20)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(location: StoreLocation, clock: Clock) -> Iterator[SqlStore]:
    opened = location.open(LIMITS, clock, None, clock, batch_limits=BATCH_LIMITS)
    yield opened
    opened.close()


def create(store: SqlStore, clock: Clock, batch_id: str, owner: str = "a", *, ends: bool = False) -> None:
    batches = store.batches
    record = BatchRecord(owner, batch_id, clock(), clock() + AGE_S * SECOND_NS, b"secret", b"caller")
    assert batches.begin(record) is None
    batches.append(owner, batch_id, [NewLine(b"secret")])
    batches.complete(owner, batch_id, b"digest")
    if ends:
        (line,) = batches.claim("h", 5, 1)
        clock.now_ns += 1
        batches.finish("h", [LineResult(line.key, LineState.SUCCEEDED, b"secret", b"full")])


def test_list_continues_after_each_deleted_batch(store: SqlStore, clock: Clock) -> None:
    """A client that deletes what it has listed sees every batch once, also those of one instant."""
    for number in range(5):
        clock.now_ns += number % 2
        create(store, clock, f"b{number}")
    found: list[str] = []
    while page := store.batches.list("a", 2, found[-1] if found else ""):
        found += [each.id for each in page]
        for each in page:
            assert store.batches.delete("a", each.id)
    assert sorted(found) == [f"b{number}" for number in range(5)]


def test_batch_that_is_created_again_has_its_new_place(store: SqlStore, clock: Clock) -> None:
    """An id that follows from the client's can return after a deletion, also more than once."""
    for name in ("b0", "b1", "b0", "b2"):
        if store.batches.get("a", name) is not None:
            store.batches.delete("a", name)
        clock.now_ns += 1
        create(store, clock, name)
    assert [each.id for each in store.batches.list("a", 9, "b0")] == ["b1"]
    store.batches.delete("a", "b0")
    assert [each.id for each in store.batches.list("a", 9, "b0")] == ["b1"]


def test_files_continue_after_the_results_of_a_deleted_batch(store: SqlStore, clock: Clock) -> None:
    """The files of a batch are deleted with it; a list that has ended with one of them continues."""
    for number in range(3):
        clock.now_ns += 1
        create(store, clock, f"b{number}", ends=True)
    store.batches.delete("a", "b1")
    assert [each.id for each in store.batches.files.list("a", 9, "b1-output")] == ["b2-output"]
    create(store, clock, "b3")
    store.batches.delete("a", "b3")
    with pytest.raises(UnknownItem):  # it had no file
        store.batches.files.list("a", 9, "b3-output")


def test_marks_of_deleted_batches_have_no_content(store: SqlStore, clock: Clock, location: StoreLocation) -> None:
    """Neither ids nor content are left; other owners don't know the batch; the marks go with age and with the owner."""
    create(store, clock, "secret1")
    create(store, clock, "secret2", owner="z")
    store.batches.delete("a", "secret1")
    store.batches.delete("z", "secret2")
    assert location.traces(b"secret") == []
    for owner, unknown in (("b", "secret1"), ("a", "secret2")):
        with pytest.raises(UnknownItem):
            store.batches.list(owner, 9, unknown)
    assert location.count("deleted_batches") == 2
    store.delete_owner("z")
    assert location.count("deleted_batches") == 1
    clock.now_ns += (AGE_S + 1) * SECOND_NS
    store.purge()
    assert location.count("deleted_batches") == 0


def test_only_the_last_deleted_batches_are_remembered(store: SqlStore, clock: Clock, location: StoreLocation) -> None:
    """The number of marks of an owner is limited."""
    for number in range(MAX_DELETED + 1):
        create(store, clock, f"b{number}")
        store.batches.delete("a", f"b{number}")
    assert list(store.batches.list("a", 9, "b1")) == []
    with pytest.raises(UnknownItem):
        store.batches.list("a", 9, "b0")
    assert location.count("deleted_batches") == MAX_DELETED
