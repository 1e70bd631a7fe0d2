"""A SQLite file of stored responses that no service uses while its content is read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from service.storage.responses.port import StoreFailed


@contextmanager
def locked_file(file: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection to a file that no other process can open until the end of the block.

    Raise StoreFailed if there is no such file, or if another process has it open, even if that process is idle.
    """
    if not file.is_file():
        raise StoreFailed(f"{file} is not a file")
    try:
        # Read-only connections can't lock it.
        opened = sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True, timeout=0, isolation_level=None)
        with closing(opened) as connection:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            yield connection
            connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:  # the primary one
            raise StoreFailed(f"{file} is open in another process; stop the services that use it") from error
        raise StoreFailed(f"{file}: {error}") from error
