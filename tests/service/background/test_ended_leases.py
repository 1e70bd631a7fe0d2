"""Work whose lease has ended while its process was busy: the same process claims it again, and does it once."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import abc
from contextlib import closing
from pathlib import Path

import pytest

from service.answering.background.claimed_tasks import ClaimedTasks
from service.storage.responses.batch_port import LineResult
from service.storage.responses.port import StoreFailed
from service.storage.responses.sql.batches import SqlBatches
from tests.engine.fakes import until
from tests.service.background.background_calls import COMPLETED, create, ended, storing
from tests.service.batches import batch_calls as batches
from tests.service.fakes import ScriptedRunner, running

TEXT = "hello"
NUM_TOKENS = len(TEXT) + 1  # with the end


def num_claims(folder: Path, table: str, *, ends_leases: bool = False) -> int:
    """Return how often the row that was claimed most often was claimed; then end all leases, if that is wanted."""
    with closing(sqlite3.connect(folder / "responses.sqlite3", isolation_level=None)) as file:
        (found,) = file.execute(f"SELECT max(num_claims) FROM {table}").fetchone()  # noqa: S608  one of two names
        if ends_leases and found == 1:
            file.execute(f"UPDATE {table} SET lease_ns = 1 WHERE holder != ''")  # noqa: S608  one of two names
    return int(found)


async def test_line_is_answered_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runner = ScriptedRunner(TEXT)
    async with running(runner, **storing(tmp_path, lease_s=60)) as run:
        with runner.paused(after=1):
            begun = await batches.create(run, [batches.chat_line("1")])
            await until(lambda: num_claims(tmp_path, "batch_lines", ends_leases=True) == 1)
            other = await batches.create(run, [batches.chat_line("2")])
            await until(lambda: num_claims(tmp_path, "batch_lines", ends_leases=True) > 1)
        for batch in (begun, other):
            assert (await batches.ended(run, batch.id)).num_succeeded == 1
        assert run.engine.stats().num_generated_tokens == 2 * NUM_TOKENS
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


async def test_line_is_answered_once_while_its_result_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease may end between the end of an answer and its storing, and then it is claimed again."""
    finish, is_stopped = SqlBatches.finish, asyncio.Event()
    num_failed = 0

    def fail(self: SqlBatches, holder: str, results: abc.Sequence[LineResult]) -> None:
        nonlocal num_failed
        if is_stopped.is_set():
            finish(self, holder, results)
            return
        num_failed += 1
        raise StoreFailed("the disk is full")

    monkeypatch.setattr(SqlBatches, "finish", fail)
    async with running(ScriptedRunner(TEXT), **storing(tmp_path, lease_s=60)) as run:
        begun = await batches.create(run, [batches.chat_line("1")])
        await until(lambda: num_failed > 0)
        num_claims(tmp_path, "batch_lines", ends_leases=True)
        other = await batches.create(run, [batches.chat_line("2")])
        await until(lambda: num_claims(tmp_path, "batch_lines") > 1)
        await until(lambda: run.engine.stats().num_generated_tokens >= 2 * NUM_TOKENS)
        is_stopped.set()
        for batch in (begun, other):
            assert (await batches.ended(run, batch.id)).num_succeeded == 1
        assert run.engine.stats().num_generated_tokens == 2 * NUM_TOKENS


async def test_response_is_generated_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runner = ScriptedRunner(TEXT)
    async with running(runner, **storing(tmp_path, lease_s=60)) as run:
        with runner.paused(after=1):
            begun = await create(run)
            await until(lambda: num_claims(tmp_path, "jobs", ends_leases=True) == 1)
            other = await create(run)
            await until(lambda: num_claims(tmp_path, "jobs", ends_leases=True) > 1)
        for response in (begun, other):
            assert (await ended(run, response.id)).status == COMPLETED
        assert run.engine.stats().num_generated_tokens == 2 * NUM_TOKENS
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_work_that_is_given_back_begins_after_its_task(*, is_cancelled: bool) -> None:
    """The store may offer it again before the task that gave it back has ended."""
    tasks = ClaimedTasks[str]()
    began, gate = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        began.set()
        try:
            await gate.wait()
        finally:
            await gate.wait()

    tasks.begin("a", work(), lambda: None)
    await began.wait()
    assert not await tasks.may_begin("a")
    if is_cancelled:
        tasks["a"].cancel()
    else:
        tasks.mark_releasing("a")
    waiting = asyncio.create_task(tasks.may_begin("a"))
    await asyncio.wait([waiting], timeout=0.01)
    assert not waiting.done()
    gate.set()
    assert await waiting
    assert not tasks
