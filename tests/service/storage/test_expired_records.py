"""Records that have expired, but were not purged yet: their ids are free again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from service.storage.responses.port import Job, ResponseRecord, StoreLimits
from service.storage.responses.sql.store import SqlStore
from tests.service.storage.store_locations import StoreLocation

MAX_AGE_S = 60
SECOND_NS = 1_000_000_000


class Clock:
    """A clock that tests set."""

    now_ns = 1000 * SECOND_NS

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(location: StoreLocation, clock: Clock) -> Iterator[SqlStore]:
    limits = StoreLimits(MAX_AGE_S, 10_000, 10_000)
    store = location.open(limits, clock, running_ns=clock)
    yield store
    store.close()


def record(store: SqlStore, request: bytes) -> ResponseRecord:
    return ResponseRecord("a", "r", store.now_ns(), "", request, b"response", b"client data")


def job(store: SqlStore, request: bytes) -> Job:
    return Job(record(store, request), b"caller", b"stream")


def expire(store: SqlStore, clock: Clock) -> None:
    """Let what is stored expire, without a purge."""
    clock.now_ns += (MAX_AGE_S + 1) * SECOND_NS
    assert store.get("a", "r") is None


def test_response_of_another_request_is_stored(store: SqlStore, clock: Clock) -> None:
    store.put(record(store, b"first"))
    expire(store, clock)
    second = record(store, b"second")
    store.put(second)
    assert store.get("a", "r") == second


@pytest.mark.parametrize("has_ended", [True, False])
def test_job_is_stored(store: SqlStore, clock: Clock, *, has_ended: bool) -> None:
    """The id can have a new job, also if the expired response was never generated."""
    first = job(store, b"first")
    assert store.jobs.add(first, 1) is None
    if has_ended:
        assert store.jobs.finish(first.record)
    expire(store, clock)
    second = job(store, b"second")
    assert store.jobs.add(second, 1) is None
    claimed = store.jobs.claim("holder", 10.0)
    assert claimed is not None
    assert (claimed.record, claimed.num_claims) == (second.record, 1)
    assert store.jobs.claim("holder", 10.0) is None
    assert store.purge() == 0
