"""`sluice store`: a check that finds damage and changes nothing, migrations, and purges."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from service.commands.store import main
from service.storage.responses.port import Addition, ConversationRecord, ItemRecord, ResponseRecord, StoreLimits
from service.storage.responses.seal import Seal
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from tests.postgres_server import PASSWORD
from tests.service.storage.store_locations import SqliteLocation, StoreLocation

LIMITS = StoreLimits(1e6, 1 << 20, 1 << 20)
KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


@pytest.fixture(autouse=True)
def key(tmp_path: Path) -> Path:
    """Return the file of the key."""
    path = tmp_path / "key"
    path.write_text(KEY)
    return path


@pytest.fixture
def filled(location: StoreLocation, key: Path) -> StoreLocation:
    """Return an encrypted store with the content of two keys."""
    store = location.open(LIMITS, seal=Seal.from_file(key))
    for owner in ("a", "b"):
        store.put(ResponseRecord(owner, "r1", time.time_ns(), "", b"question", b"answer"))
        store.conversations.create(ConversationRecord(owner, "c1", 0, b""), [])
        store.conversations.add(owner, Addition("c1", [ItemRecord("i1", b"item")]))
    store.close()
    return location


_LATER = (
    "deleted_batches", "deleted_items", "batch_lines", "batches", "file_parts", "files", "jobs", "conversations",
    "items", "clock",
)  # fmt: skip


def run(command: str, location: StoreLocation, key: Path, *options: str) -> int:
    return main([command, location.name, "--encryption-key-file", str(key), *options])


def test_check_describes_a_store(filled: StoreLocation, key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output has the version and the numbers of rows."""
    assert run("check", filled, key) == 0
    printed = capsys.readouterr().out
    for line in (": schema version ", "2 responses", "2 conversations", "2 items", "10 encrypted values"):
        assert line in printed
    assert PASSWORD not in printed


def test_check_changes_nothing(tmp_path: Path) -> None:
    """The file is the same, to the byte."""
    location = SqliteLocation(tmp_path)
    location.open(LIMITS).close()
    before = location.path.read_bytes()
    assert main(["check", location.name]) == 0
    assert location.path.read_bytes() == before


def test_check_finds_problems(filled: StoreLocation, key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing key, a value that was moved, and an older schema are errors with exit code 1."""
    assert main(["check", filled.name]) == 1
    assert "is encrypted" in capsys.readouterr().err
    filled.change("UPDATE items SET item = (SELECT item FROM items WHERE owner = 'a') WHERE owner = 'b'")
    assert run("check", filled, key) == 1
    assert "is damaged" in capsys.readouterr().err
    filled.set_version(0)
    assert run("check", filled, key) == 1
    assert "sluice store migrate" in capsys.readouterr().err
    filled.set_version(99)
    assert run("check", filled, key) == 1
    assert run("migrate", filled, key) == 1
    assert "schema version 99" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["/nowhere", "postgresql://127.0.0.1:1/nowhere", "postgresql://a b:secret@h:x/"])
@pytest.mark.parametrize("command", ["check", "migrate", "purge"])
def test_missing_store_is_reported(command: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A file, server or URL that is none is an error of one line, without a password."""
    assert main([command, name]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "secret" not in error


def test_migrate_brings_an_old_file_to_the_newest_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of the first schema is migrated, and can then be checked."""
    path = tmp_path / "old.sqlite3"
    SqliteStore(path, LIMITS).close()
    with sqlite3.connect(path) as connection:  # as the first release with it left it
        for name in _LATER:
            connection.execute(f"DROP TABLE {name}")
        connection.execute("DROP TRIGGER delete_job")
        connection.execute("DROP TRIGGER count_changed")
        connection.execute("ALTER TABLE responses DROP COLUMN events")
        connection.execute("PRAGMA user_version = 1")
    assert main(["check", str(path)]) == 1
    assert main(["migrate", str(path)]) == 0
    assert main(["check", str(path)]) == 0
    assert "not encrypted" in capsys.readouterr().out


def test_purge_deletes_expired_content_or_that_of_one_key(
    filled: StoreLocation, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything of one key is deleted, and nothing of another; then what is older than the age."""
    assert run("purge", filled, key, "--owner", "a") == 0
    assert "2 rows" in capsys.readouterr().out
    assert run("check", filled, key) == 0
    printed = capsys.readouterr().out
    for line in ("1 responses", "1 conversations", "1 items", "of 1 keys"):
        assert line in printed
    assert run("purge", filled, key) == 0
    assert "deleted 0 expired" in capsys.readouterr().out
    time.sleep(0.01)
    assert run("purge", filled, key, "--max-age-s", "0.001") == 0
    assert "deleted 2 expired" in capsys.readouterr().out
