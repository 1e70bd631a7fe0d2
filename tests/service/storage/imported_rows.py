"""A file with rows of every kind, its import, and the rows of a file or of a database."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from service.commands.store import main
from service.storage.responses.batch_port import BatchRecord, FileRecord, LineResult, LineState, NewLine
from service.storage.responses.port import (
    Addition,
    ConversationRecord,
    ItemRecord,
    Job,
    ResponseRecord,
    StoreLimits,
)
from service.storage.responses.seal import Seal
from service.storage.responses.sql.store import SqlStore
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from tests.postgres_server import PostgresServer

LIMITS = StoreLimits(1e6, 1 << 20, 1 << 20)
OF_PROCESSES = {"holder", "lease_ns"}  # columns of a process that is gone


def record(
    owner: str, response_id: str, previous_id: str = "", client_data: bytes = b"", events: bytes = b""
) -> ResponseRecord:
    content = (b"\\question\n\0", b"answer\t", client_data, events)
    return ResponseRecord(owner, response_id, time.time_ns(), previous_id, *content)


def fill(store: SqlStore, owner: str) -> None:
    """Store rows of every kind, finished and unfinished."""
    store.put(record(owner, "r1"))
    store.put(record(owner, "r2", "r1", b"{}", b"events"))
    for name in ("j1", "j2"):
        store.jobs.add(Job(record(owner, name), b"caller", b"stream"), 9)
    assert store.jobs.claim("killed", 60) is not None
    items = [ItemRecord(f"i{number}", bytes([number])) for number in (5, 1, 3)]
    store.conversations.create(ConversationRecord(owner, "c1", 7, b"metadata"), items)
    store.conversations.delete_item(owner, "c1", "i1")
    store.conversations.add(owner, Addition("c1", [ItemRecord("i0", b"last")]))
    files = store.batches.files
    files.begin(FileRecord(owner, "f1", time.time_ns(), "a.jsonl", expires_ns=time.time_ns() + 10**15))
    for part in (b"first", bytes(70_000)):
        files.append(owner, "f1", part)
    files.complete(owner, "f1")
    files.begin(FileRecord(owner, "f2", time.time_ns(), "begun.jsonl"))
    files.append(owner, "f2", b"part")
    for name, num_lines in (("b1", 2), ("b2", 2), ("b4", 3)):
        store.batches.begin(
            BatchRecord(owner, name, time.time_ns(), time.time_ns() + 10**15, b"description", b"caller")
        )
        store.batches.append(owner, name, [NewLine(b"request"), NewLine(b"bad", b"error")][:num_lines])
        store.batches.append(owner, name, [NewLine(b"request")] * (num_lines - 2))
        store.batches.complete(owner, name, b"digest")
        lines = store.batches.claim("killed", 60, num_lines - 1)
        result = LineResult(lines[0].key, LineState.SUCCEEDED, b"result", b"fallback")
        store.batches.finish("killed", [result])
    store.batches.delete(owner, "b2")
    store.batches.begin(BatchRecord(owner, "b3", time.time_ns(), time.time_ns(), b"not complete", b"caller"))


def made(path: Path, key: Path | None = None) -> Path:
    """Make a file with the content of three callers, one without a key, and return its path."""
    with closing(SqliteStore(path, LIMITS, seal=None if key is None else Seal.from_file(key))) as store:
        for owner in ("", "a", "b"):
            fill(store, owner)
    return path


def run(path: Path, url: str, *options: str) -> int:
    return main(["import", str(path), url, *options])


def tables_of(path: Path) -> dict[str, list[str]]:
    """Return the tables of a file that have content, and their columns except those of processes."""
    with closing(sqlite3.connect(path)) as file:
        names = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {name: [row[1] for row in file.execute(f"PRAGMA table_info({name})")] for name in names}
    own = {name: [each for each in found if each not in OF_PROCESSES] for name, found in columns.items()}
    own["items"].remove("position")  # the order counts
    own["deleted_items"] = ["owner", "conversation", "digest"]
    own["deleted_batches"].remove("number")
    return {name: found for name, found in own.items() if name not in {"seal", "sqlite_sequence"}}


def query_of(table: str, columns: list[str], schema: str = "") -> str:
    order = "owner, conversation, position" if table == "items" else ", ".join(columns)
    return f"SELECT {', '.join(columns)} FROM {schema}{table} ORDER BY {order}"  # noqa: S608  names of tables


def rows_of(source: Path | PostgresServer, tables: dict[str, list[str]]) -> dict[str, list[Any]]:
    """Return all rows of the tables."""
    if isinstance(source, PostgresServer):
        return {name: source.execute(query_of(name, columns, "sluice.")) for name, columns in tables.items()}
    with closing(sqlite3.connect(source)) as file:
        return {name: file.execute(query_of(name, columns)).fetchall() for name, columns in tables.items()}
