"""One SQLite file with encrypted values: its connection, transactions and deletion without traces.

The journal is a write-ahead log that is flushed to the disk at each commit. Deleted content is overwritten with zeros,
in the file (`secure_delete`) and in the log, which `empty_log` truncates.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from service.storage.responses.port import DiskFailed, StoreFailed
from service.storage.responses.schema import check_version, migrate
from service.storage.responses.seal import Seal

_BUSY_TIMEOUT_S: Final = 1.0  # to wait for another process that has the file open
_OF_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
_CANARY: Final = "canary"
_PRAGMAS: Final = (
    "auto_vacuum = INCREMENTAL",  # before the first table; a purge returns free pages to the disk
    "journal_mode = WAL",
    "synchronous = FULL",
    "secure_delete = ON",
    "trusted_schema = OFF",
)

Execute: TypeAlias = Callable[..., sqlite3.Cursor]
Values: TypeAlias = Sequence[Any] | Mapping[str, Any]


class SqliteFile:
    """The file of a store. It is used by one thread at a time."""

    def __init__(self, path: Path, seal: Seal | None) -> None:
        """Open the file, which is created if it does not exist, for its owner only. Raise StoreFailed."""
        self._path = path
        self._seal = seal
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            kind = DiskFailed if error.errno in _OF_DISK else StoreFailed
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
                self._check_seal()
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        """Release the file."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()

    def row(self, query: str, values: Values = ()) -> Any:
        """Return the first row of a query, or None."""
        with self._translated():
            return self._connection.execute(query, values).fetchone()

    def rows(self, query: str, values: Values = ()) -> list[Any]:
        """Return all rows of a query."""
        with self._translated():
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        """Run the block in a transaction that may write, and is rolled back if the block raises."""
        with self._translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def sealed(self, data: bytes, context: str) -> bytes:
        """Return a value as it is stored."""
        return data if self._seal is None else self._seal.close(data, context)

    def opened(self, stored: bytes, context: str) -> bytes:
        """Return the value that was stored. Raise StoreFailed if it was changed or moved."""
        return stored if self._seal is None else self._seal.open(stored, context)

    def empty_log(self) -> None:
        """Write the log into the file, and truncate it, so that it has nothing of what was deleted."""
        with self._translated():
            (is_busy, _, _) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_busy:
            raise StoreFailed(f"{self._path}: another process reads the file; deleted content is left in its log")

    def shrink(self) -> None:
        """Return free pages to the disk."""
        with self._translated():
            self._connection.executescript("PRAGMA incremental_vacuum")  # `execute` would free one page only

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

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise the errors of SQLite as StoreFailed, with the file's path."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary one
            kind = DiskFailed if code in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR} else StoreFailed
            raise kind(f"{self._path}: {error}") from error
