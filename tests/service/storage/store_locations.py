"""A SQLite file and a PostgreSQL database, in which the same tests open stores, and look for what they have left."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from service.storage.responses.port import StoreLimits
from service.storage.responses.postgres import check as postgres_check
from service.storage.responses.postgres.postgres_store import PostgresStore
from service.storage.responses.seal import Seal
from service.storage.responses.sql.store import SqlStore
from service.storage.responses.sqlite import check as sqlite_check
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from tests.postgres_server import PostgresServer


class StoreLocation(Protocol):
    """Where stores are opened. All of one location have the same content."""

    name: str
    """The argument of `sluice store`."""

    def open(self, limits: StoreLimits, *arguments: Any, **options: Any) -> SqlStore:
        """Open the store."""

    def traces(self, text: bytes) -> list[str]:
        """Return the files or tables that contain a text."""

    def change(self, statement: str) -> None:
        """Change the content."""

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""

    def set_version(self, version: int) -> None:
        """Change the version of the schema."""

    def check(self, seal: Seal | None) -> list[str]:
        """Return the lines of `sluice store check`."""


class SqliteLocation:
    """A file in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "responses.sqlite3"
        self.name = str(self.path)

    def open(self, limits: StoreLimits, *arguments: Any, **options: Any) -> SqlStore:
        return SqliteStore(self.path, limits, *arguments, **options)

    def traces(self, text: bytes) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if text in path.read_bytes())

    def change(self, statement: str) -> None:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute(statement)

    def count(self, table: str) -> int:
        with closing(sqlite3.connect(self.path)) as connection:
            number: int = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608  a name
            return number

    def set_version(self, version: int) -> None:
        self.change(f"PRAGMA user_version = {version}")

    def check(self, seal: Seal | None) -> list[str]:
        return sqlite_check.check(self.path, seal)


class PostgresLocation:
    """A database of a server."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.name = server.url

    def open(self, limits: StoreLimits, *arguments: Any, **options: Any) -> SqlStore:
        return PostgresStore(self.server.url, limits, *arguments, **options)

    def traces(self, text: bytes) -> list[str]:
        return self.server.tables_with(text)

    def change(self, statement: str) -> None:
        self.server.execute(f"SET search_path = sluice; {statement}")

    def count(self, table: str) -> int:
        ((number,),) = self.server.execute(f"SELECT count(*) FROM sluice.{table}")  # noqa: S608  a name
        return int(str(number))

    def set_version(self, version: int) -> None:
        self.change(f"UPDATE version SET number = {version}")  # noqa: S608  a number

    def check(self, seal: Seal | None) -> list[str]:
        return postgres_check.check(self.server.url, None, seal)
