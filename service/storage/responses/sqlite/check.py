"""Check a SQLite file of stored responses without changing it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from service.storage.responses.port import StoreFailed
from service.storage.responses.seal import Seal
from service.storage.responses.sql.check import described
from service.storage.responses.sqlite.schema import VERSION, check_version


def check(file: Path, seal: Seal | None) -> list[str]:
    """Return a description of a file that is in order. Raise StoreFailed with the first problem."""
    if not file.is_file():
        raise StoreFailed(f"{file} is not a file")
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return checked(connection, file, seal)
    except sqlite3.Error as error:
        raise StoreFailed(f"{file}: {error}") from error


def checked(connection: sqlite3.Connection, file: Path, seal: Seal | None) -> list[str]:
    """Return a description of an open file that is in order. Raise StoreFailed with the first problem."""
    version = check_version(connection)
    if version < VERSION:
        raise StoreFailed(f"{file} has schema version {version}; migrate it to {VERSION} with sluice store migrate")
    problems = [text for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]
    if problems:
        raise StoreFailed(f"{file} is damaged: {problems[0]}")
    return [f"{file}: schema version {version}", *described(str(file), connection.execute, seal)]
