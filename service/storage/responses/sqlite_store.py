"""The store of responses in one SQLite file.

The journal is a write-ahead log that is flushed to the disk at each commit. Deleted content is overwritten with zeros,
in the file (`secure_delete`) and in the log, which is emptied after each deletion.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from service.storage.responses.port import (
    ChainTooLong,
    ResponseRecord,
    ResponseStore,
    StoreFailed,
    StoreLimit,
    StoreLimits,
)
from service.storage.responses.schema import check_version, migrate
from service.storage.responses.seal import Seal

_BUSY_TIMEOUT_S: Final = 1.0  # to wait for another process that has the file open
_BATCH: Final = 256  # records that one transaction of a purge deletes
_COLUMNS: Final = "owner, id, created_ns, previous_id, request, response"
_PRESENT: Final = "responses WHERE owner = ? AND id = ? AND created_ns > ?"
_CANARY: Final = "canary"
_PRAGMAS: Final = (
    "auto_vacuum = INCREMENTAL",  # before the first table; a purge returns free pages to the disk
    "journal_mode = WAL",
    "synchronous = FULL",
    "secure_delete = ON",
    "trusted_schema = OFF",
)


class SqliteStore(ResponseStore):
    """A `ResponseStore` in a file. It is used by one thread at a time; `now_ns` returns the time since the epoch."""

    def __init__(
        self, path: Path, limits: StoreLimits, now_ns: Callable[[], int] = time.time_ns, seal: Seal | None = None
    ) -> None:
        """Open the file, which is created if it does not exist, for its owner only. Raise StoreFailed.

        `seal` encrypts requests, responses and client data; ids, owners and dates are not encrypted.
        """
        self._path = path
        self._limits = limits
        self._now_ns = now_ns
        self._seal = seal
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise StoreFailed(f"{path}: {error.strerror}") from error
        with self._translated():
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            try:
                check_version(self._connection)  # before anything is changed
                for pragma in _PRAGMAS:
                    self._connection.execute(f"PRAGMA {pragma}")
                migrate(self._connection)
                self._check_seal()
            except BaseException:
                self._connection.close()
                raise

    def put(self, record: ResponseRecord) -> None:
        limits, num_bytes = self._limits, record.num_bytes
        if num_bytes > limits.max_bytes_per_owner:
            raise StoreLimit(
                f"the response and its request have {num_bytes} bytes; a key may store {limits.max_bytes_per_owner}"
            )
        with self._transaction() as execute:
            key = (record.owner, record.id)
            num_deleted = execute("DELETE FROM responses WHERE owner = ? AND id = ?", key).rowcount
            num_deleted += self._make_room(record.owner, num_bytes)
            (total,) = execute("SELECT coalesce(sum(num_bytes), 0) FROM usage").fetchone()
            if total + num_bytes > limits.max_bytes:
                raise StoreLimit(f"the store of responses is full; its limit is {limits.max_bytes} bytes")
            execute(
                f"INSERT INTO responses ({_COLUMNS}, client_data, num_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608  constants
                (*key, record.created_ns, record.previous_id, *self._sealed(record), num_bytes),
            )
        if num_deleted:
            self._empty_log()

    def get(self, owner: str, response_id: str) -> ResponseRecord | None:
        return self._read(owner, response_id)

    def chain(self, owner: str, response_id: str, max_records: int, max_bytes: int) -> Sequence[ResponseRecord] | None:
        found: list[ResponseRecord] = []
        num_bytes = 0
        while response_id:
            record = self._read(owner, response_id, with_client_data=False)
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
        with self._transaction() as execute:
            key = (owner, response_id)
            was_there = execute(f"SELECT 1 FROM {_PRESENT}", (*key, self._oldest_ns())).fetchone() is not None  # noqa: S608  constants
            execute("DELETE FROM responses WHERE owner = ? AND id = ?", key)
        self._empty_log()
        return was_there

    def purge(self) -> int:
        num_purged = 0
        while True:
            with self._transaction() as execute:
                num_deleted = execute(
                    "DELETE FROM responses WHERE rowid IN "
                    "(SELECT rowid FROM responses WHERE created_ns <= ? ORDER BY created_ns LIMIT ?)",
                    (self._oldest_ns(), _BATCH),
                ).rowcount
            num_purged += num_deleted
            if num_deleted < _BATCH:
                break
        if num_purged:
            with self._translated():
                self._connection.executescript("PRAGMA incremental_vacuum")  # `execute` would free one page only
            self._empty_log()
        return num_purged

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()

    def _read(self, owner: str, response_id: str, *, with_client_data: bool = True) -> ResponseRecord | None:
        """Return a record that has not expired."""
        columns = f"{_COLUMNS}, client_data" if with_client_data else _COLUMNS
        with self._translated():
            row = self._connection.execute(
                f"SELECT {columns} FROM {_PRESENT}",  # noqa: S608  constants
                (owner, response_id, self._oldest_ns()),
            ).fetchone()
        if row is None:
            return None
        _, _, created_ns, previous_id, request, response = row[:6]
        client_data = row[6] if with_client_data else b""
        if self._seal is not None:
            context = f"{owner}\0{response_id}\0"
            request = self._seal.open(request, context + "request")
            response = self._seal.open(response, context + "response")
            client_data = self._seal.open(client_data, context + "client_data") if with_client_data else b""
        return ResponseRecord(owner, response_id, created_ns, previous_id, request, response, client_data)

    def _sealed(self, record: ResponseRecord) -> tuple[bytes, bytes, bytes]:
        """Return a record's request, response and client data as they are stored."""
        if self._seal is None:
            return record.request, record.response, record.client_data
        context = f"{record.owner}\0{record.id}\0"
        return (
            self._seal.close(record.request, context + "request"),
            self._seal.close(record.response, context + "response"),
            self._seal.close(record.client_data, context + "client_data"),
        )

    def _check_seal(self) -> None:
        """Raise StoreFailed if the file was created with another key, or with none while there is one."""
        row = self._connection.execute("SELECT canary FROM seal").fetchone()
        if row is None:
            canary = b"" if self._seal is None else self._seal.close(b"", _CANARY)
            self._connection.execute("INSERT INTO seal VALUES (1, ?)", (canary,))
        elif self._seal is None and row[0]:
            raise StoreFailed(f"{self._path}: is encrypted, and there is no key")
        elif self._seal is not None and not row[0]:
            raise StoreFailed(f"{self._path}: is not encrypted, although there is a key; use a new file")
        elif self._seal is not None:
            self._seal.open(row[0], _CANARY)

    def _oldest_ns(self) -> int:
        """Return the instant before which responses have expired."""
        return self._now_ns() - round(self._limits.max_age_s * 1e9)

    def _make_room(self, owner: str, num_bytes: int) -> int:
        """Delete the owner's oldest records until `num_bytes` more fit, and return the number of deleted ones."""
        execute = self._connection.execute
        row = execute("SELECT num_bytes FROM usage WHERE owner = ?", (owner,)).fetchone()
        excess = (row[0] if row is not None else 0) + num_bytes - self._limits.max_bytes_per_owner
        deleted: list[tuple[int]] = []
        if excess > 0:
            oldest = execute("SELECT rowid, num_bytes FROM responses WHERE owner = ? ORDER BY created_ns", (owner,))
            for rowid, size in oldest:
                deleted.append((rowid,))
                excess -= size
                if excess <= 0:
                    break
            oldest.close()
            self._connection.executemany("DELETE FROM responses WHERE rowid = ?", deleted)
        return len(deleted)

    def _empty_log(self) -> None:
        """Write the log into the file, and truncate it, so that it has nothing of what was deleted."""
        with self._translated():
            (is_busy, _, _) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_busy:
            raise StoreFailed(f"{self._path}: another process reads the file; deleted content is left in its log")

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """Run the block in a transaction, which is rolled back if the block raises."""
        with self._translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise the errors of SQLite as StoreFailed, with the file's path."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreFailed(f"{self._path}: {error}") from error
