"""The store of responses in an SQL database."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from service.storage.responses.age_clock import AgeClock
from service.storage.responses.batch_port import BatchLimits
from service.storage.responses.port import (
    ChainTooLong,
    ResponseRecord,
    ResponseStore,
    StoreFailed,
    StoreLimit,
    StoreLimits,
)
from service.storage.responses.sql.batches import SqlBatches
from service.storage.responses.sql.content import TABLES, delete_marked, mark
from service.storage.responses.sql.conversations import SqlConversations
from service.storage.responses.sql.database import SqlDatabase
from service.storage.responses.sql.jobs import SqlJobs
from service.storage.responses.sql.records import SqlRecords

# The tables of what owners have, with the number of rows that one transaction of a purge deletes.
_OWNED: Final = {"responses": 64, "conversations": 16, "batches": 1, "files": 4}
_GIB: Final = 1 << 30
DEFAULT_BATCH_LIMITS: Final = BatchLimits(
    max_files=1000, max_batches=100, max_lines=50_000, max_file_bytes=_GIB, max_bytes_per_owner=_GIB, max_bytes=_GIB
)


class SqlStore(ResponseStore):
    """A `ResponseStore` in a database. It is used by one thread at a time."""

    def __init__(
        self,
        database: SqlDatabase,
        limits: StoreLimits,
        batch_limits: BatchLimits,
        *,
        now_ns: Callable[[], int],
        running_ns: Callable[[], int],
        lease_ns: Callable[[], int],
    ) -> None:
        """`now_ns` returns the time since the epoch, `running_ns` that of a clock that is never set.

        `lease_ns` is the clock of leases, on which all processes that use the database agree.
        """
        self._database = database
        self.name = database.name
        row = self._database.row("SELECT seen_ns FROM clock")
        self._clock = AgeClock(limits.max_age_s, None if row is None else row[0], now_ns, running_ns)
        self._records = SqlRecords(self._database, limits, self._clock)
        self.conversations = SqlConversations(self._database, self._records, self._clock)
        self.jobs = SqlJobs(self._database, self._records, self.conversations, lease_ns)
        self.batches = SqlBatches(self._database, batch_limits, limits.max_age_s, self._clock, lease_ns)

    def now_ns(self) -> int:
        return self._clock()

    def put(self, record: ResponseRecord) -> None:
        with self._database.transaction() as execute:
            key = (record.owner, record.id)
            self._records.delete_expired(execute, *key)
            before = execute("SELECT request FROM responses WHERE owner = ? AND id = ?", key).fetchone()
            if before is not None and self._records.opened_request(*key, before[0]) != record.request:
                raise StoreLimit("the id of the response is that of another request")
            if execute("DELETE FROM responses WHERE owner = ? AND id = ?", key).rowcount:
                self._database.note_deletion()
            self._records.insert(execute, record)
            if record.addition is not None:
                self.conversations.append(execute, record.owner, record.addition, record.id)

    def get(self, owner: str, response_id: str) -> ResponseRecord | None:
        return self._records.read(owner, response_id)

    def chain(self, owner: str, response_id: str, max_records: int, max_bytes: int) -> Sequence[ResponseRecord] | None:
        found: list[ResponseRecord] = []
        num_bytes = 0
        while response_id:
            record = self._records.read(owner, response_id, is_whole=False)
            if record is None:
                return None
            found.append(record)
            num_bytes += record.num_bytes
            if len(found) > max_records:
                raise ChainTooLong(f"the response continues more than {max_records - 1} others, which is the limit")
            if num_bytes > max_bytes:
                raise ChainTooLong(f"the responses have more than {max_bytes} bytes together, which is the limit")
            response_id = record.previous_id
        return found[::-1]

    def delete(self, owner: str, response_id: str) -> bool:
        with self._database.transaction() as execute:
            was_there = self._records.exists(owner, response_id)
            execute("DELETE FROM responses WHERE owner = ? AND id = ?", (owner, response_id))
        self._database.erase()
        return was_there

    def purge(self) -> int:
        return sum(self.purge_steps())

    def purge_steps(self) -> Iterator[int]:
        for table in _OWNED:
            while expired := self._expired(table):
                self._database.has_traces = True
                yield from self._purge(table, expired)
        yield from self.batches.purge_left()
        self._note_time()
        if self._database.has_traces:
            while self._database.shrink():
                yield 0
            self._database.erase()

    def delete_owner(self, owner: str) -> int:
        """Delete everything of an owner and leave nothing of it in the database's files. Return the number of rows."""
        with self._database.transaction() as execute:
            num_deleted = sum(
                execute(f"DELETE FROM {table} WHERE owner = ?", (owner,)).rowcount  # noqa: S608  constants
                for table in (*_OWNED, "deleted_batches")
            )
        while self._database.shrink():
            pass
        self._database.erase()
        return num_deleted

    def _expired(self, table: str) -> list[tuple[str, str]]:
        """Return the owners and ids of the oldest expired rows of a table."""
        rows = f"{table} WHERE {_dated(table)} <= ? ORDER BY {_dated(table)} LIMIT ?"
        return self._database.rows(f"SELECT owner, id FROM {rows}", (self._records.oldest_ns(), _OWNED[table]))  # noqa: S608  constants

    def _purge(self, table: str, keys: Sequence[tuple[str, str]]) -> Iterator[int]:
        """Delete expired rows of a table in steps. Yield the number that each step has deleted."""
        expired = f"{table} WHERE owner = ? AND id = ? AND {_dated(table)} <= ?"
        oldest_ns = self._records.oldest_ns()
        if table not in TABLES:
            with self._database.transaction() as execute:
                num_deleted = sum(execute(f"DELETE FROM {expired}", (*key, oldest_ns)).rowcount for key in keys)  # noqa: S608  constants
            yield num_deleted
            return
        for key in keys:
            with self._database.transaction() as execute:
                if execute(f"SELECT 1 FROM {expired}", (*key, oldest_ns)).fetchone() is None:  # noqa: S608  constants
                    continue  # another process has deleted it
                mark(execute, table, *key)
            for _ in delete_marked(self._database, table, *key):
                yield 0
            yield 1

    def close(self) -> None:
        self._note_time()
        self._database.close()

    def _note_time(self) -> None:
        """Store the time for the next process, unless the disk is full."""
        with contextlib.suppress(StoreFailed), self._database.transaction() as execute:
            execute(
                "INSERT INTO clock VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET seen_ns = excluded.seen_ns",
                (self._clock(),),
            )


def _dated(table: str) -> str:
    """Return the column with the time from which a table's rows age."""
    return "updated_ns" if table == "conversations" else "created_ns"
