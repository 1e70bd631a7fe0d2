"""One SQLite file with encrypted values: its connection, transactions and deletion without traces.

The journal is a write-ahead log that is flushed to the disk at each commit. Deleted content is overwritten with zeros,
in the file (`secure_delete`) and in the log, which `erase` truncates.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from service.storage.responses.port import StoreFailed, StoreUnavailable
from service.storage.responses.seal import Seal
from service.storage.responses.sql.database import Execute, SqlDatabase, Values
from service.storage.responses.sqlite.schema import check_version, migrate

_BUSY_TIMEOUT_S: Final = 1.0  # to wait for another process that has the file open
_FREED: Final = 2048  # pages that are returned to the disk at once; others may use the file in between
_OF_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
_PRAGMAS: Final = (
    "auto_vacuum = INCREMENTAL",  # before the first table; a purge returns free pages to the disk
    "journal_mode = WAL",
    "synchronous = FULL",
    "secure_delete = ON",
    "trusted_schema = OFF",
)


class SqliteFile(SqlDatabase):
    """The file of a store. It is used by one thread at a time."""

    def __init__(self, path: Path, seal: Seal | None) -> None:
        """Open the file, which is created if it does not exist, for its owner only. Raise StoreFailed."""
        super().__init__(str(path), seal)
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            kind = StoreUnavailable if error.errno in _OF_DISK else StoreFailed
            raise kind(f"{path}: {error.strerror}") from error
        with self._translated():
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            try:
                check_version(self._connection)  # before anything is changed
                for pragma in _PRAGMAS:
                    self._connection.execute(f"PRAGMA {pragma}")
                migrate(self._connection)
                self.check_seal()
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()

    def row(self, query: str, values: Values = ()) -> Any:
        with self._translated():
            return self._connection.execute(query, values).fetchone()

    def rows(self, query: str, values: Values = ()) -> list[Any]:
        with self._translated():
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[Execute]:
        with self._translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _erase(self) -> None:
        # The log is written into the file, and truncated, so that it has nothing of what was deleted.
        with self._translated():
            (is_busy, _, _) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_busy:
            raise StoreFailed(f"{self.name}: another process reads the file; deleted content is left in its log")

    def shrink(self) -> bool:
        with self._translated():
            num_before = self._num_free_pages()
            self._connection.executescript(f"PRAGMA incremental_vacuum({_FREED})")  # `execute` would free one page only
            return 0 < self._num_free_pages() < num_before

    def _num_free_pages(self) -> int:
        number: int = self._connection.execute("PRAGMA freelist_count").fetchone()[0]
        return number

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise the errors of SQLite as StoreFailed, with the file's path."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary one
            kind = StoreUnavailable if code in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR} else StoreFailed
            raise kind(f"{self.name}: {error}") from error
