"""Batches that are cancelled or expire, and files with results that are deleted: in steps, with nothing left."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from service.storage.responses.batch_port import BatchRecord, BatchStatus, LineResult, LineState, NewLine
from service.storage.responses.port import ResponseRecord
from service.storage.responses.sql.store import SqlStore
from tests.service.storage.deletions.test_steps import LIMITS, PART, SECRET
from tests.service.storage.store_locations import StoreLocation
from tests.service.storage.test_response_store import SECOND_NS, Clock

NUM_LINES = 12  # three times what one step deletes
STATES = [LineState.SUCCEEDED, LineState.FAILED, LineState.EXPIRED]
WINDOW_NS = 30 * SECOND_NS


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(location: StoreLocation, clock: Clock) -> Iterator[SqlStore]:
    """A store with a batch whose first line a process holds."""
    store = location.open(LIMITS, clock, running_ns=clock)
    fill(store)
    assert [line.key[2] for line in store.batches.claim("holder", 20, 1)] == [0]
    yield store
    store.close()


def fill(store: SqlStore, text: bytes = PART) -> None:
    now_ns = store.now_ns()
    store.batches.begin(BatchRecord("a", "x", now_ns, now_ns + WINDOW_NS, b"", b"", b"upload"))
    for _ in range(NUM_LINES):
        store.batches.append("a", "x", [NewLine(text)], upload=b"upload")
    store.batches.complete("a", "x", b"digest", upload=b"upload")


def finish(store: SqlStore, state: LineState, *indices: int) -> None:
    results = [LineResult(("a", "x", index), state, PART, b"") for index in indices]
    store.batches.finish("holder", results)


def status(store: SqlStore) -> BatchStatus:
    batch = store.batches.get("a", "x")
    assert batch is not None
    return batch.status


def check_steps(numbers: list[int]) -> None:
    """Raise AssertionError unless the numbers of lines that are left become smaller by at most four at a time."""
    assert max(before - after for before, after in pairwise(numbers)) <= 4


def test_cancellation_has_steps(store: SqlStore, location: StoreLocation) -> None:
    """The batch has ended after the first step: no line can be claimed, held or answered."""
    numbers = [NUM_LINES]
    for batch in store.batches.cancel_steps("a", "x"):
        assert batch is not None
        assert batch.status == status(store) == BatchStatus.CANCELLED
        assert not store.batches.claim("another", 20, 9)
        assert not store.batches.renew("holder", 20)
        finish(store, LineState.SUCCEEDED, 0)
        assert not store.batches.results("a", "x", -1, STATES, 99)
        numbers.append(location.count("batch_lines"))
        store.put(ResponseRecord("b", f"r{len(numbers)}", store.now_ns(), "", b"request", b"response"))
    check_steps(numbers)
    assert numbers[-1] == 0
    assert location.traces(SECRET) == []
    found = store.batches.get("a", "x")
    assert found is not None
    assert (found.num_succeeded, found.num_failed) == (0, 0)


@pytest.mark.parametrize("way", ["purge", "cancel"])
def test_cancellation_that_a_process_left_is_finished(store: SqlStore, location: StoreLocation, way: str) -> None:
    """By a purge, and by the next request to cancel the batch."""
    finish(store, LineState.SUCCEEDED, 0)
    next(store.batches.cancel_steps("a", "x"))
    assert 1 < location.count("batch_lines") < NUM_LINES
    if way == "purge":
        numbers = [location.count("batch_lines") for _ in store.purge_steps()]
        check_steps(numbers)
    else:
        assert store.batches.cancel("a", "x") is not None
    assert location.count("batch_lines") == 1
    results = store.batches.results("a", "x", -1, STATES, 99)
    assert [(each.index, each.state) for each in results] == [(0, LineState.SUCCEEDED)]


def test_new_batch_of_the_id_of_a_cancelled_one_is_kept(store: SqlStore, location: StoreLocation) -> None:
    """A client may delete a batch, and create it again, while its cancellation is unfinished."""
    steps = store.batches.cancel_steps("a", "x")
    next(steps)
    store.batches.delete("a", "x")
    fill(store)
    assert list(steps)
    assert location.count("batch_lines") == NUM_LINES
    assert status(store) == BatchStatus.IN_PROGRESS


def test_expiry_changes_no_line_without_a_result(store: SqlStore, clock: Clock, location: StoreLocation) -> None:
    """Each line without a result is an expired one, also that of a process, whose late result is not stored."""
    assert len(store.batches.claim("holder", 20, 2)) == 2
    finish(store, LineState.SUCCEEDED, 1)
    finish(store, LineState.FAILED, 2)
    clock.now_ns += WINDOW_NS
    before = location.count("batch_lines WHERE state = 0")
    assert store.batches.expire() == 1
    assert store.batches.expire() == 0
    assert location.count("batch_lines WHERE state = 0") == before == NUM_LINES - 2
    finish(store, LineState.SUCCEEDED, 0)
    assert not store.batches.claim("another", 20, 9)
    assert not store.batches.renew("holder", 20)
    batch = store.batches.get("a", "x")
    assert batch is not None
    assert (batch.status, batch.num_succeeded, batch.num_failed) == (BatchStatus.EXPIRED, 1, NUM_LINES - 1)
    expired = [each.index for each in store.batches.results("a", "x", -1, [LineState.EXPIRED], 99)]
    assert expired == [0, *range(3, NUM_LINES)]
    results = store.batches.results("a", "x", -1, STATES, 99)
    assert [each.state for each in results][:4] == [
        LineState.EXPIRED, LineState.SUCCEEDED, LineState.FAILED, LineState.EXPIRED
    ]  # fmt: skip
    assert {each.result for each in results if each.state == LineState.EXPIRED} == {b""}


@pytest.mark.parametrize("way", ["delete", "purge"])
def test_file_of_an_expired_batch_is_deleted_in_steps(
    store: SqlStore, clock: Clock, location: StoreLocation, way: str
) -> None:
    """The results are gone after the first step; a purge finishes what a process left."""
    finish(store, LineState.SUCCEEDED, 0)
    clock.now_ns += WINDOW_NS
    store.batches.expire()
    numbers = [NUM_LINES]
    steps = store.batches.files.delete_steps("a", "x-errors")
    for was_there in steps:
        assert was_there
        assert store.batches.files.get("a", "x-errors") is None
        assert [each.index for each in store.batches.results("a", "x", -1, STATES, 99)] == [0]
        assert not store.batches.results("a", "x", -1, [LineState.EXPIRED], 99)
        numbers.append(location.count("batch_lines"))
        if way == "purge" and len(numbers) == 2:
            numbers += [location.count("batch_lines") for _ in store.purge_steps()]
            break
    check_steps(numbers)
    assert numbers[-1] == 1
    assert store.batches.files.get("a", "x-output") is not None
    assert list(store.batches.files.delete_steps("a", "x-output"))[-1]
    assert location.traces(SECRET) == []
    fill_again = BatchRecord("a", "y", store.now_ns(), store.now_ns() + WINDOW_NS, b"", b"", b"")
    store.batches.begin(fill_again)
    store.batches.append("a", "y", [NewLine(b".")], upload=b"")  # nothing that is deleted counts
