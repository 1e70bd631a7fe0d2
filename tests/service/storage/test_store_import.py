"""`sluice store import`: every row of a file arrives in the database, all or nothing, and its work is continued.

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
from typing import Any

import pytest

from service.commands.store import main
from service.storage.responses.batch_port import BatchRecord, FileRecord, LineResult, LineState, NewLine
from service.storage.responses.port import (
    Addition,
    ConversationRecord,
    ItemRecord,
    Job,
    ResponseRecord,
    StoreFailed,
    StoreLimits,
)
from service.storage.responses.postgres.postgres_store import PostgresStore
from service.storage.responses.seal import Seal
from service.storage.responses.sql.store import SqlStore
from service.storage.responses.sqlite.locked_file import locked_file
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from tests.postgres_server import PASSWORD, USER, PostgresServer
from tests.service.background import background_calls as background
from tests.service.batches import batch_calls as batches
from tests.service.fakes import ScriptedRunner, running
from tests.waiting import GUARD_S

LIMITS = StoreLimits(1e6, 1 << 20, 1 << 20)
KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
KILLS = int(os.environ.get("IMPORT_KILLS", "3"))
OF_PROCESSES = {"holder", "lease_ns"}  # columns of a process that is gone


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the file."""
    return tmp_path / "responses.sqlite3"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """Return the file of the key."""
    path = tmp_path / "key"
    path.write_text(KEY)
    return path


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
    for name, num_lines in (("b1", 2), ("b2", 3)):
        store.batches.begin(
            BatchRecord(owner, name, time.time_ns(), time.time_ns() + 10**15, b"description", b"caller")
        )
        store.batches.append(owner, name, [NewLine(b"request"), NewLine(b"bad", b"error")][:num_lines])
        store.batches.append(owner, name, [NewLine(b"request")] * (num_lines - 2))
        store.batches.complete(owner, name, b"digest")
        lines = store.batches.claim("killed", 60, num_lines - 1)
        result = LineResult(lines[0].key, LineState.SUCCEEDED, b"result", b"fallback")
        store.batches.finish("killed", [result])
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


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_every_row_is_imported(
    path: Path, key: Path, postgres: PostgresServer, capsys: pytest.CaptureFixture[str], *, is_encrypted: bool
) -> None:
    """The tables have the same rows, sums and order of items; the file is the same, to the byte; counts are printed."""
    made(path, key if is_encrypted else None)
    before, tables = path.read_bytes(), tables_of(path)
    options = ["--encryption-key-file", str(key)] if is_encrypted else []
    assert run(path, postgres.url, *options) == 0
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir() if each.name.startswith(path.name)] == [path.name]
    found = rows_of(path, tables)
    assert rows_of(postgres, tables) == found
    assert all(found.values())
    printed = capsys.readouterr().out
    assert main(["check", postgres.url, *options]) == 0
    checked = capsys.readouterr().out
    assert printed.splitlines()[2:] == checked.splitlines()[1:]  # numbers of rows, bytes and encrypted values
    assert f": {sum(map(len, found.values())) - len(found['usage']) - 1} rows\n" in printed
    assert PASSWORD not in printed


def test_services_that_use_the_database_see_what_is_imported(path: Path, postgres: PostgresServer) -> None:
    """A store that is open meanwhile finds responses, appends to conversations, and claims work that nobody does."""
    made(path)
    with closing(PostgresStore(postgres.url, LIMITS)) as store:
        store.put(record("a", "own"))
        assert run(path, postgres.url) == 0
        chain = store.chain("a", "r2", 9, 999)
        assert chain is not None
        assert [each.id for each in chain] == ["r1", "r2"]
        assert store.conversations.add("a", Addition("c1", [ItemRecord("i9", b"")]))
        items = store.conversations.items("a", "c1", 9)
        assert items is not None
        assert [each.id for each in items] == ["i5", "i3", "i0", "i9"]
        parts = [store.batches.files.part("b", "f1", index) for index in range(3)]
        assert parts == [b"first", bytes(70_000), None]
        claims = iter(lambda: store.jobs.claim("new", 60), None)
        claimed = {(job.record.owner, job.record.id, job.num_claims) for job in claims if job is not None}
        assert len(claimed) == 6
        assert {num_claims for *_, num_claims in claimed} == {1, 2}
        assert len(store.batches.claim("new", 60, 99)) == 3


def test_owner_with_a_character_that_the_database_lacks_is_imported(path: Path, postgres: PostgresServer) -> None:
    """A caller whose id has a zero character, as in a token of any issuer, finds its content."""
    with closing(SqliteStore(path, LIMITS)) as store:
        store.put(record("a\0", "r1"))
    assert run(path, postgres.url) == 0
    with closing(PostgresStore(postgres.url, LIMITS)) as store:
        found = store.get("a\0", "r1")
        assert found is not None
        assert found.response == b"answer\t"
    assert run(path, postgres.url) == 1


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


@pytest.mark.timeout(120 + 20 * KILLS)
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


@pytest.fixture
def in_database(postgres: PostgresServer) -> dict[str, Any]:
    """Return the settings of a service with the database."""
    url = f"postgresql://{USER}@127.0.0.1:{postgres.port}/postgres?password={PASSWORD}"
    return {"stored_responses": {"postgres_url": url, "timeout_s": GUARD_S, "lease_s": 0.3}}


async def test_unfinished_work_is_finished_by_a_service_with_the_database(
    tmp_path: Path, path: Path, postgres: PostgresServer, in_database: dict[str, Any]
) -> None:
    """A response in the background and a batch, begun with the file, end with the results of undisturbed ones."""
    lines = [batches.chat_line(str(number)) for number in range(5)]
    runner = ScriptedRunner("a long answer")
    async with running(runner, **background.storing(tmp_path)) as service:
        undisturbed = await background.create(service)
        expected = await background.follow(service, undisturbed.id)
        with runner.paused(after=3):
            response = await background.create(service)
            batch = await batches.create(service, lines, request_id="r1")
            assert batch.num_requests == len(lines)
            await service.server.drain(0)
    with closing(sqlite3.connect(path)) as file:
        unfinished = "SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM batch_lines WHERE state = 0)"
        assert file.execute(unfinished).fetchone() == (1, len(lines))
    assert run(path, postgres.url) == 0
    async with running(ScriptedRunner("a long answer"), **in_database) as service:
        again = await batches.create(service, lines, request_id="r1")
        assert again.id == batch.id  # the call's id is known
        assert (await background.ended(service, response.id)).status == background.COMPLETED
        assert background.comparable(await background.follow(service, response.id)) == background.comparable(expected)
        assert await background.follow(service, undisturbed.id) == expected
        assert (await batches.ended(service, batch.id)).num_succeeded == len(lines)
        found = await batches.results(service, batch.id)
    assert [(each.index, batches.text_of(each)) for each in found] == [(n, "a long answer") for n in range(len(lines))]
