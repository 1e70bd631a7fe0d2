"""`sluice store import`: every row of a file arrives in the database, and its work is continued."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from service.commands.store import main
from service.storage.responses.port import (
    Addition,
    ItemRecord,
)
from service.storage.responses.postgres.postgres_store import PostgresStore
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from tests.postgres_server import PASSWORD, USER, PostgresServer
from tests.service.background import background_calls as background
from tests.service.batches import batch_calls as batches
from tests.service.fakes import ScriptedRunner, running
from tests.service.storage.imported_rows import LIMITS, made, record, rows_of, run, tables_of
from tests.waiting import GUARD_S


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
        for descending, expected in ((False, ["i3", "i0", "i9"]), (True, ["i5"])):
            others = store.conversations.items("a", "c1", 9, "i1", descending=descending)  # after a deleted item
            assert [each.id for each in others or ()] == expected
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
