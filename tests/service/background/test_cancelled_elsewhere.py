"""Responses in the background that another process cancels before their generation has begun here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from sluice.v1 import response_event_pb2, response_item_pb2

from service.answering.background.caller_snapshot import to_bytes
from service.answering.background.job_runner import JobRunner
from service.contract.responses.background import cancelled, opening, packed, terminal
from service.contract.responses.stored_response import with_response
from service.generation.caller import ANONYMOUS
from service.storage.responses.port import Job, ResponseRecord, StoreLimits
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from service.storage.responses.store_thread import StoreThread
from tests.engine.fakes import until
from tests.waiting import GUARD_S

QUEUED = response_item_pb2.Response(id="r", status=response_item_pb2.RESPONSE_STATUS_QUEUED, background=True)
RECORD = ResponseRecord("", "r", 0, "", b"", QUEUED.SerializeToString())


class Answers:
    """Answers that begin when the test lets them, and never end."""

    def __init__(self) -> None:
        self.may_begin = asyncio.Event()
        self.is_begun = asyncio.Event()
        self.is_stopped = asyncio.Event()

    async def history(self, _: Any) -> tuple[()]:
        return ()

    async def stream(self, *_: Any) -> AsyncGenerator[Any, None]:
        self.is_begun.set()
        try:
            await self.may_begin.wait()
            begun = response_event_pb2.ResponseInProgress(response=QUEUED)
            yield response_event_pb2.StreamResponseResponse(sequence_number=1, in_progress=begun)
            await asyncio.Event().wait()
        finally:
            self.is_stopped.set()


async def test_cancelled_response_is_not_generated(tmp_path: Path) -> None:
    """It is stopped when its generation begins, not at the next renewal of leases, which is after the test."""
    limits, path = StoreLimits(3600, 1 << 20, 1 << 20), tmp_path / "responses.sqlite3"
    thread, answers = StoreThread(lambda: SqliteStore(path, limits), GUARD_S), Answers()
    await thread.run(lambda store: store.jobs.add(Job(RECORD, to_bytes(ANONYMOUS), b"").dated(store.now_ns()), 1))
    any_answers: Any = answers
    runner = JobRunner(thread, any_answers, any_answers, lambda _: (0, ""), max_running=1, lease_s=3600.0)  # type: ignore[arg-type, return-value]
    running = asyncio.create_task(runner.run())
    await answers.is_begun.wait()
    ended = cancelled(QUEUED)
    events = packed(each.SerializeToString() for each in (*opening(QUEUED), terminal(ended, 2)))
    assert await thread.run(lambda store: store.jobs.finish(with_response(RECORD, ended, events)))
    answers.may_begin.set()
    await until(answers.is_stopped.is_set)
    await until(lambda: runner.live(("", "r")) is None)
    found = await thread.run(lambda store: store.get("", "r"))
    assert found is not None
    assert response_item_pb2.Response.FromString(found.response) == ended
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await thread.close()
