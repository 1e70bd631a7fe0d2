"""`sluice store import` while PostgreSQL fails, and of files and into databases that can't be imported: all or nothing.

IMPORT_KILLS is the number of random instants at which PostgreSQL is killed; `make fuzz` tries 200.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from service.storage.responses.batch_port import BatchRecord, FileRecord
from service.storage.responses.port import (
    ConversationRecord,
    StoreFailed,
)
from service.storage.responses.postgres.postgres_store import PostgresStore
from service.storage.responses.seal import Seal
from service.storage.responses.sqlite.locked_file import locked_file
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from tests.postgres_server import PostgresServer
from tests.service.storage.imported_rows import LIMITS, made, record, rows_of, run, tables_of
from tests.waiting import GUARD_S

KILLS = int(os.environ.get("IMPORT_KILLS", "3"))


def test_file_of_a_killed_service_is_imported_with_its_log(
    path: Path, tmp_path: Path, postgres: PostgresServer
) -> None:
    """What was committed, but not yet written from the log into the file, is imported, and stays in the file."""
    killed = tmp_path / "killed" / path.name
    killed.parent.mkdir()
    with closing(SqliteStore(path, LIMITS)) as store:
        store.put(record("a", "r1"))
        for ending in ("", "-wal"):
            shutil.copy(f"{path}{ending}", f"{killed}{ending}")
    assert b"answer" not in killed.read_bytes()
    assert run(killed, postgres.url) == 0
    tables = tables_of(killed)
    found = rows_of(killed, tables)
    assert len(found["responses"]) == 1
    assert rows_of(postgres, tables) == found


@pytest.mark.timeout(300 + 120 * KILLS)
def test_killed_server_has_everything_or_nothing(path: Path, postgres: PostgresServer) -> None:
    """If PostgreSQL is killed during an import, the exit code says whether everything is there, or nothing."""
    draw = random.Random(13)
    tables = tables_of(made(path))
    del tables["clock"]  # the stores below note their time
    expected = rows_of(path, tables)
    began = time.monotonic()
    assert run(path, postgres.url) == 0
    took = time.monotonic() - began
    for _ in range(KILLS):
        postgres.reset()
        PostgresStore(postgres.url, LIMITS).close()
        with ThreadPoolExecutor(1) as pool:
            code = pool.submit(run, path, postgres.url)
            time.sleep(draw.random() * took)
            postgres.kill()
            postgres.start()
            is_imported = code.result(GUARD_S) == 0
        PostgresStore(postgres.url, LIMITS).close()
        assert rows_of(postgres, tables) == (expected if is_imported else {name: [] for name in tables})


def test_conflicts_are_named_and_nothing_is_imported(
    path: Path, postgres: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows that the database has already, each kind of them, are an error; so is a second import."""
    made(path)
    with closing(PostgresStore(postgres.url, LIMITS)) as store:
        store.put(record("a", "r2"))
        store.put(record("c", "r1"))  # another caller's
        store.conversations.create(ConversationRecord("b", "c1", 0, b""), [])
        store.batches.files.begin(FileRecord("b", "f2", time.time_ns(), "other"))
        store.batches.begin(BatchRecord("", "b1", time.time_ns(), 0, b"", b""))
    before = rows_of(postgres, tables_of(path))
    assert run(path, postgres.url) == 1
    error = capsys.readouterr().err
    for name in (
        "1 responses ('r2' of the key 'a')",
        "1 conversations ('c1'",
        "1 files ('f2'",
        "1 batches ('b1' of the",
    ):
        assert name in error
    assert error.count("\n") == 1
    assert rows_of(postgres, tables_of(path)) == before
    postgres.reset()
    assert run(path, postgres.url) == 0
    assert run(path, postgres.url) == 1
    assert "12 responses ('j1' of the key '', 'j2' of the key '', 'r1' of the key '', …)" in capsys.readouterr().err


def test_failure_imports_nothing(path: Path, postgres: PostgresServer, capsys: pytest.CaptureFixture[str]) -> None:
    """An error at the last row leaves the database as it was, and the file can be imported later."""
    made(path)
    PostgresStore(postgres.url, LIMITS).close()
    postgres.execute("ALTER TABLE sluice.batch_lines ADD CONSTRAINT refused CHECK (owner != 'b' OR position != 2)")
    tables = tables_of(path)
    before = rows_of(postgres, tables)
    assert run(path, postgres.url) == 1
    assert "violates check constraint" in capsys.readouterr().err
    assert rows_of(postgres, tables) == before
    postgres.execute("ALTER TABLE sluice.batch_lines DROP CONSTRAINT refused")
    assert run(path, postgres.url) == 0


def test_file_in_use_is_refused(path: Path, postgres: PostgresServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A store that is open, even if it does nothing, is an error, and continues; none opens during an import."""
    made(path)
    with closing(SqliteStore(path, LIMITS)) as store:
        assert run(path, postgres.url) == 1
        assert "is open in another process; stop the services" in capsys.readouterr().err
        store.put(record("a", "r9"))
    with locked_file(path), pytest.raises(StoreFailed, match="database is locked"):
        SqliteStore(path, LIMITS)
    assert postgres.execute("SELECT to_regnamespace('sluice')") == [(None,)]


def test_unusable_files_and_keys_are_refused(
    path: Path, key: Path, postgres: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing file, a destination that is none, a missing or needless key and an old schema have an error each."""

    def error_of(*options: str, url: str = postgres.url) -> str:
        assert run(path, url, *options) == 1
        return capsys.readouterr().err

    of_key = ("--encryption-key-file", str(key))
    assert "is not a file" in error_of()
    made(path)
    assert "is not a URL" in error_of(url=str(path))
    assert "is not encrypted, although there is a key" in error_of(*of_key)
    with closing(PostgresStore(postgres.url, LIMITS, seal=Seal.from_file(key))):
        assert "is encrypted, and there is no key" in error_of()
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA user_version = 1")
    assert "migrate it" in error_of()
    path.unlink()
    made(path, key)
    assert "is encrypted, and there is no key" in error_of()
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("UPDATE file_parts SET content = x'00'")
    assert "is damaged" in error_of(*of_key)
