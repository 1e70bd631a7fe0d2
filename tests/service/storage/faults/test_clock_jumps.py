"""Stores whose clock is set while work is held: no lease ends by it, and nothing expires early."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from service.storage.responses.batch_port import BatchRecord, BatchStatus, FileRecord, LineResult, LineState, NewLine
from service.storage.responses.port import Job, ResponseRecord, StoreLimits
from service.storage.responses.postgres import database
from service.storage.responses.sql.store import SqlStore
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from tests.service.storage.store_locations import PostgresLocation, StoreLocation
from tests.service.storage.test_response_store import SECOND_NS, Clock

HOUR_NS = 3600 * SECOND_NS
LIMITS = StoreLimits(max_age_s=30 * 86_400, max_bytes_per_owner=1000, max_bytes=1000)

Jump = Callable[[int], None]


@pytest.fixture
def opened(location: StoreLocation, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[SqlStore, Jump]]:
    """A store, and a function that sets its clock: of a database that of the server, of a file that of the machine."""
    if isinstance(location, PostgresLocation):
        begin, total = database._BEGIN, [0]  # noqa: SLF001  the server's clock can't be set

        def set_server(change_ns: int) -> None:
            total[0] += change_ns
            changed = begin.replace(database._CLOCK, f"({database._CLOCK} + {total[0]})::bigint")  # noqa: SLF001
            monkeypatch.setattr(database, "_BEGIN", changed)

        store, jump = location.open(LIMITS), set_server
    else:
        clock = Clock(1000 * 24 * HOUR_NS)

        def set_machine(change_ns: int) -> None:
            clock.now_ns += change_ns

        store, jump = location.open(LIMITS, clock), set_machine
    yield store, jump
    store.close()


@pytest.mark.parametrize("hours", [-5, 5])
def test_work_is_finished_by_one_holder(opened: tuple[SqlStore, Jump], hours: int) -> None:
    """A jump ends no lease in a file. In a database it ends those of all replicas, and the first holder is too late."""
    store, jump = opened
    record = ResponseRecord("a", "r", store.now_ns(), "", b"q", b"")
    store.jobs.add(Job(record, b"", b""), 9)
    store.batches.begin(BatchRecord("a", "b", store.now_ns(), store.now_ns() + 24 * HOUR_NS, b"", b""))
    store.batches.append("a", "b", [NewLine(b"line")])
    store.batches.complete("a", "b", b"")
    assert store.jobs.claim("one", 60) is not None
    (line,) = store.batches.claim("one", 60, 9)
    jump(hours * HOUR_NS)
    is_held = isinstance(store, SqliteStore)
    store.purge()  # a database's clock is measured with each transaction
    assert (store.jobs.claim("two", 60) is None, not store.batches.claim("two", 60, 9)) == (is_held, is_held)
    holders = ("one", "two") if is_held else ("two", "one")
    ended = [store.jobs.finish(replace(record, response=holder.encode()), holder) for holder in reversed(holders)]
    assert ended == [False, True]
    for holder in reversed(holders):
        store.batches.finish(holder, [LineResult(line.key, LineState.SUCCEEDED, holder.encode(), b"")])
    found = store.get("a", "r")
    assert found is not None
    assert found.response == holders[0].encode()
    (result,) = store.batches.results("a", "b", -1, [LineState.SUCCEEDED], 9)
    assert result.result == holders[0].encode()


def test_jump_expires_nothing(opened: tuple[SqlStore, Jump]) -> None:
    """A batch has its time, a file too, and an upload is not given up, when the clock is set five hours ahead."""
    store, jump = opened
    now_ns = store.now_ns()
    store.batches.begin(BatchRecord("a", "b", now_ns, now_ns + HOUR_NS, b"", b""))
    store.batches.append("a", "b", [NewLine(b"line")])
    store.batches.complete("a", "b", b"")
    store.batches.files.begin(FileRecord("a", "f", now_ns, "name", expires_ns=now_ns + HOUR_NS))
    store.batches.files.append("a", "f", b"content")
    store.batches.files.begin(FileRecord("a", "g", now_ns, "name"))
    jump(5 * HOUR_NS)
    assert store.batches.expire() == 0
    assert store.purge() == 0
    store.batches.files.complete("a", "f")
    store.batches.files.append("a", "g", b"rest")
    batch = store.batches.get("a", "b")
    assert batch is not None
    assert batch.status is BatchStatus.IN_PROGRESS
