"""Check a SQLite file of stored responses without changing it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from service.storage.responses.port import StoreFailed
from service.storage.responses.schema import VERSION, check_version
from service.storage.responses.seal import Seal

_CANARY: Final = "canary"
_EVENTS: Final = "events"
_RESULT: Final = "result"
_OPTIONAL: Final = frozenset({_EVENTS, _RESULT})  # missing ones are stored as nothing
# Each encrypted column, with the context to which its values are bound.
_SEALED: Final = (
    *((f"SELECT owner || char(0) || id || char(0) || '{name}', {name} FROM responses", name)  # noqa: S608  constants
      for name in ("request", "response", "client_data", _EVENTS)),
    *((f"SELECT owner || char(0) || id || char(0) || '{name}', {name} FROM jobs", name)  # noqa: S608  constants
      for name in ("caller", "stream")),
    ("SELECT owner || char(0) || id || char(0) || 'metadata', metadata FROM conversations", "metadata"),
    ("SELECT owner || char(0) || conversation || char(0) || id, item FROM items", "item"),
    ("SELECT owner || char(0) || id || char(0) || 'filename', filename FROM files", "filename"),
    ("SELECT owner || char(0) || file || char(0) || position, content FROM file_parts", "content"),
    *((f"SELECT owner || char(0) || id || char(0) || '{name}', {name} FROM batches", name)  # noqa: S608  constants
      for name in ("description", "caller")),
    *((f"SELECT owner || char(0) || batch || char(0) || position || char(0) || '{name}', {name} FROM batch_lines",  # noqa: S608  constants
       name) for name in ("request", _RESULT)),
)  # fmt: skip
_TABLES: Final = {"responses": "responses", "jobs": "unfinished responses", "conversations": "conversations",
                  "items": "items of conversations", "files": "files", "batches": "batches",
                  "batch_lines": "requests of batches"}  # fmt: skip


def check(file: Path, seal: Seal | None) -> list[str]:
    """Return a description of a file that is in order. Raise StoreFailed with the first problem."""
    if not file.is_file():
        raise StoreFailed(f"{file} is not a file")
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        return [*_check(file, connection, seal)]


def _check(file: Path, connection: sqlite3.Connection, seal: Seal | None) -> Iterator[str]:
    """Yield the lines of the description."""
    version = check_version(connection)
    if version < VERSION:
        raise StoreFailed(f"{file} has schema version {version}; migrate it to {VERSION} with sluice store migrate")
    problems = [text for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]
    if problems:
        raise StoreFailed(f"{file} is damaged: {problems[0]}")
    row = connection.execute("SELECT canary FROM seal").fetchone()
    is_sealed = row is not None and bool(row[0])
    if is_sealed and seal is None:
        raise StoreFailed(f"{file} is encrypted, and there is no key")
    num_values = 0
    if is_sealed and seal is not None:
        seal.open(row[0], _CANARY)
        for query, name in _SEALED:
            for context, value in connection.execute(query):
                if value or name not in _OPTIONAL:
                    seal.open(value, context)
                    num_values += 1
    yield f"{file}: schema version {version}"
    for table, name in _TABLES.items():
        (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608  constants
        yield f"{count} {name}"
    num_bytes, num_owners = connection.execute("SELECT coalesce(sum(num_bytes), 0), count(*) FROM usage").fetchone()
    yield f"{num_bytes} bytes of {num_owners} keys"
    yield f"{num_values} encrypted values" if is_sealed else "not encrypted"
