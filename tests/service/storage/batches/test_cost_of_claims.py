"""The work of SQLite for the claims of a batch: it doesn't grow with the number of the batch's requests."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from service.storage.responses.batch_port import BatchRecord, NewLine
from service.storage.responses.port import StoreLimits
from service.storage.responses.sqlite.sqlite_store import SqliteStore

FEW, MANY = 200, 10_000
NUM_CLAIMED = 17
HOUR_NS = 3_600_000_000_000


class Work:
    """The number of instructions that SQLite's virtual machine has executed."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self) -> int:
        self.number += 1
        return 0


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    connect, work = sqlite3.connect, Work()

    def counted(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_progress_handler(work, 1)
        return connection

    monkeypatch.setattr(sqlite3, "connect", counted)
    return work


def work_of(folder: Path, work: Work, num_lines: int) -> list[int]:
    """Return the work of a claim, of a renewal, and of the next claim, with a batch of `num_lines`."""
    limits = StoreLimits(3600, 1 << 30, 1 << 30)
    store = SqliteStore(folder / f"{num_lines}.sqlite3", limits)
    batch = BatchRecord("a", "b", store.now_ns(), store.now_ns() + HOUR_NS, b"", b"", b"upload")
    store.batches.begin(batch)
    store.batches.append("a", "b", [NewLine(b"request")] * num_lines, upload=b"upload")
    store.batches.complete("a", "b", b"digest", upload=b"upload")
    counts = []
    for call in (
        lambda: store.batches.claim("holder", 10.0, NUM_CLAIMED),
        lambda: store.batches.renew("holder", 10.0),
        lambda: store.batches.claim("holder", 10.0, NUM_CLAIMED),
    ):
        before = work.number
        assert len(call()) == NUM_CLAIMED
        counts.append(work.number - before)
    store.close()
    return counts


def test_work_does_not_grow_with_the_batch(tmp_path: Path, work: Work) -> None:
    few, many = work_of(tmp_path, work, FEW), work_of(tmp_path, work, MANY)
    for small, large in zip(few, many, strict=True):
        assert large < 1.5 * small, (few, many)
