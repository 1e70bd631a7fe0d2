"""Check a PostgreSQL database of stored responses without changing it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from service.storage.responses.port import StoreFailed
from service.storage.responses.postgres.connection import Connection, first_line
from service.storage.responses.postgres.schema import VERSION, check_version
from service.storage.responses.seal import Seal
from service.storage.responses.sql.check import described

_TIMEOUT_S: Final = 10.0  # to connect
_ROWS: Final = 16  # that are read at once: each may have megabytes


def check(url: str, password_file: Path | None, seal: Seal | None) -> list[str]:
    """Return a description of a database that is in order. Raise StoreFailed with the first problem."""
    connection = Connection(url, password_file, _TIMEOUT_S)
    try:
        return [*_check(connection, seal)]
    except connection.driver.Error as error:
        raise StoreFailed(f"{connection.name}: {first_line(error)}") from error
    finally:
        connection.drop()


def _check(connection: Connection, seal: Seal | None) -> Iterator[str]:
    """Yield the lines of the description, of one moment."""
    opened = connection.get()
    opened.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    version = check_version(opened.execute, connection.name)
    if version < VERSION:
        raise StoreFailed(
            f"{connection.name} has schema version {version}; migrate it to {VERSION} with sluice store migrate"
        )

    def rows(query: str) -> Iterator[Any]:
        with opened.cursor("rows", binary=True) as cursor:  # named, so that the server keeps the rows
            cursor.itersize = _ROWS
            yield from cursor.execute(query)

    yield f"{connection.name}: schema version {version}"
    yield from described(connection.name, rows, seal)
