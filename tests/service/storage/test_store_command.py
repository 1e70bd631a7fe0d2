"""`sluice store`: a check that finds damage and changes nothing, migrations, and purges."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from service.commands.store import main
from service.storage.responses.port import Addition, ConversationRecord, ItemRecord, ResponseRecord, StoreLimits
from service.storage.responses.seal import Seal
from service.storage.responses.sqlite.schema import VERSION
from service.storage.responses.sqlite.sqlite_store import SqliteStore

LIMITS = StoreLimits(1e6, 1 << 20, 1 << 20)
KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return an encrypted file with the content of two keys, next to its key."""
    (tmp_path / "key").write_text(KEY)
    path = tmp_path / "responses.sqlite3"
    store = SqliteStore(path, LIMITS, seal=Seal.from_file(tmp_path / "key"))
    for owner in ("a", "b"):
        store.put(ResponseRecord(owner, "r1", time.time_ns(), "", b"question", b"answer"))
        store.conversations.create(ConversationRecord(owner, "c1", 0, b""), [])
        store.conversations.add(owner, Addition("c1", [ItemRecord("i1", b"item")]))
    store.close()
    return path


def run(command: str, file: Path, *options: str) -> int:
    return main([command, str(file), "--encryption-key-file", str(file.parent / "key"), *options])


def test_check_describes_a_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output has the version and the numbers of rows; the file is unchanged."""
    before = file.read_bytes()
    assert run("check", file) == 0
    printed = capsys.readouterr().out
    for line in (f"schema version {VERSION}", "2 responses", "2 conversations", "2 items", "10 encrypted values"):
        assert line in printed
    assert file.read_bytes() == before


def test_check_finds_problems(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing key, a value that was moved, and an older schema are errors with exit code 1."""
    assert main(["check", str(file)]) == 1
    assert "is encrypted" in capsys.readouterr().err
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE items SET item = (SELECT item FROM items WHERE owner = 'a') WHERE owner = 'b'")
    assert run("check", file) == 1
    assert "is damaged" in capsys.readouterr().err
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 1")
    assert run("check", file) == 1
    assert "sluice store migrate" in capsys.readouterr().err
    assert main(["check", "/nowhere"]) == 1


def test_migrate_brings_an_old_file_to_the_newest_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of the first schema is migrated, and can then be checked."""
    path = tmp_path / "old.sqlite3"
    SqliteStore(path, LIMITS).close()
    with sqlite3.connect(path) as connection:  # as the first release with it left it
        for name in ("batch_lines", "batches", "file_parts", "files", "jobs", "conversations", "items", "clock"):
            connection.execute(f"DROP TABLE {name}")
        connection.execute("DROP TRIGGER delete_job")
        connection.execute("DROP TRIGGER count_changed")
        connection.execute("ALTER TABLE responses DROP COLUMN events")
        connection.execute("PRAGMA user_version = 1")
    assert main(["check", str(path)]) == 1
    assert main(["migrate", str(path)]) == 0
    assert main(["check", str(path)]) == 0
    assert "not encrypted" in capsys.readouterr().out


def test_purge_deletes_expired_content_or_that_of_one_key(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything of one key is deleted without a trace, and nothing of another; then what is older than the age."""
    assert run("purge", file, "--owner", "a") == 0
    assert "2 rows" in capsys.readouterr().out
    with sqlite3.connect(file) as connection:
        for table in ("responses", "conversations", "items"):
            assert connection.execute(f"SELECT DISTINCT owner FROM {table}").fetchall() == [("b",)]  # noqa: S608
    assert run("purge", file) == 0
    assert "deleted 0 expired" in capsys.readouterr().out
    time.sleep(0.01)
    assert run("purge", file, "--max-age-s", "0.001") == 0
    assert "deleted 2 expired" in capsys.readouterr().out
