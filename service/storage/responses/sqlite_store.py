"""The store of responses in one SQLite file."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from service.storage.responses.age_clock import AgeClock
from service.storage.responses.batch_port import BatchLimits
from service.storage.responses.port import ChainTooLong, ResponseRecord, ResponseStore, StoreFailed, StoreLimits
from service.storage.responses.seal import Seal
from service.storage.responses.sqlite_batches import SqliteBatches
from service.storage.responses.sqlite_conversations import SqliteConversations
from service.storage.responses.sqlite_file import SqliteFile
from service.storage.responses.sqlite_jobs import SqliteJobs
from service.storage.responses.sqlite_records import SqliteRecords

_BATCH: Final = 256  # records that one transaction of a purge deletes
_OWNED: Final = ("responses", "conversations", "batches", "files")
_GIB: Final = 1 << 30
_DEFAULT: Final = BatchLimits(
    max_files=1000, max_batches=100, max_lines=50_000, max_file_bytes=_GIB, max_bytes_per_owner=_GIB, max_bytes=_GIB
)


class SqliteStore(ResponseStore):
    """A `ResponseStore` in a file. It is used by one thread at a time; `now_ns` returns the time since the epoch."""

    def __init__(
        self,
        path: Path,
        limits: StoreLimits,
        now_ns: Callable[[], int] = time.time_ns,
        seal: Seal | None = None,
        running_ns: Callable[[], int] = time.monotonic_ns,
        *,
        batch_limits: BatchLimits = _DEFAULT,
    ) -> None:
        """Open the file, which is created if it does not exist, for its owner only. Raise StoreFailed.

        `seal` encrypts requests, responses and client data; ids, owners and dates are not encrypted. `running_ns` is
        a clock that is never set.
        """
        self._file = SqliteFile(path, seal)
        row = self._file.row("SELECT seen_ns FROM clock")
        self._clock = AgeClock(limits.max_age_s, None if row is None else row[0], now_ns, running_ns)
        self._records = SqliteRecords(self._file, limits, self._clock)
        self.conversations = SqliteConversations(self._file, self._records, self._clock)
        self.jobs = SqliteJobs(self._file, self._records, self.conversations, now_ns)
        self.batches = SqliteBatches(self._file, batch_limits, limits.max_age_s, self._clock, now_ns)

    def put(self, record: ResponseRecord) -> None:
        with self._file.transaction() as execute:
            key = (record.owner, record.id)
            num_deleted = execute("DELETE FROM responses WHERE owner = ? AND id = ?", key).rowcount
            num_deleted += self._records.insert(execute, record)
            if record.addition is not None:
                self.conversations.append(execute, record.owner, record.addition)
        if num_deleted:
            self._file.empty_log()

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
        with self._file.transaction() as execute:
            was_there = self._records.exists(owner, response_id)
            execute("DELETE FROM responses WHERE owner = ? AND id = ?", (owner, response_id))
        self._file.empty_log()
        return was_there

    def purge(self) -> int:
        num_purged = sum(
            self._purge(table, "updated_ns" if table == "conversations" else "created_ns") for table in _OWNED
        )
        num_purged += self.batches.purge_incomplete()
        self._note_time()
        if num_purged:
            self._file.shrink()
            self._file.empty_log()
        return num_purged

    def delete_owner(self, owner: str) -> int:
        """Delete everything of an owner and leave nothing of it in the files. Return the number of rows."""
        with self._file.transaction() as execute:
            num_deleted = sum(
                execute(f"DELETE FROM {table} WHERE owner = ?", (owner,)).rowcount  # noqa: S608  constants
                for table in _OWNED
            )
        self._file.shrink()
        self._file.empty_log()
        return num_deleted

    def _purge(self, table: str, dated: str) -> int:
        """Delete the expired rows of a table, and return their number."""
        num_purged = 0
        while True:
            with self._file.transaction() as execute:
                num_deleted = execute(
                    f"DELETE FROM {table} WHERE rowid IN "  # noqa: S608  constants
                    f"(SELECT rowid FROM {table} WHERE {dated} <= ? ORDER BY {dated} LIMIT ?)",
                    (self._records.oldest_ns(), _BATCH),
                ).rowcount
            num_purged += num_deleted
            if num_deleted < _BATCH:
                return num_purged

    def close(self) -> None:
        self._note_time()
        self._file.close()

    def _note_time(self) -> None:
        """Store the time for the next process, unless the disk is full."""
        with contextlib.suppress(StoreFailed), self._file.transaction() as execute:
            execute("INSERT OR REPLACE INTO clock VALUES (1, ?)", (self._clock(),))
