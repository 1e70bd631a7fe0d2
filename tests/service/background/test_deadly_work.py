"""Work of which the service's process dies again and again: it is stored as failed and not begun once more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from service.answering.background.caller_snapshot import to_bytes
from service.contract.responses.background import Response
from service.generation.caller import ANONYMOUS
from service.storage.responses.batch_port import BatchRecord, NewLine
from service.storage.responses.port import Job, ResponseRecord, ResponseStore
from tests.engine.fakes import until
from tests.service.background.background_calls import FAILED
from tests.service.background.runners import Endless, batches, jobs, opened
from tests.service.batches.batch_calls import chat_line

DEATHS = 16


class Noted(Endless):
    """Answers that never end, which note that they have begun."""

    def __init__(self) -> None:
        self.has_begun = False

    async def stream(self, *_: Any) -> AsyncGenerator[Any, None]:
        self.has_begun = True
        async for event in super().stream():
            yield event

    async def answer(self, *_: Any) -> bytes:
        self.has_begun = True
        return await super().answer()


def fill(store: ResponseStore, num_deaths: int) -> None:
    """Store a response to generate and a batch of one request, whose holders have died that many times."""
    record = ResponseRecord("", "r", store.now_ns(), "", b"", b"")
    store.jobs.add(Job(record, to_bytes(ANONYMOUS), b"stream"), 1)
    now_ns = store.now_ns()
    store.batches.begin(BatchRecord("", "b", now_ns, now_ns + 3600 * 10**9, b"", to_bytes(ANONYMOUS)))
    store.batches.append("", "b", [NewLine(chat_line("1").SerializeToString())])
    store.batches.complete("", "b", b"")
    for _ in range(num_deaths):
        assert store.jobs.claim("dead", 0.0) is not None
        assert store.batches.claim("dead", 0.0, 1)


def has_failed(store: ResponseStore, kind: str) -> bool:
    if kind == "batches":
        batch = store.batches.get("", "b")
        return batch is not None and batch.num_failed == 1
    record = store.get("", "r")
    return record is not None and Response.FromString(record.response).status == FAILED


@pytest.mark.parametrize("make", [jobs, batches], ids=["jobs", "batches"])
async def test_work_whose_holders_die_is_begun_16_times(tmp_path: Path, make: Any) -> None:
    answers = Noted()
    async with opened(tmp_path) as (_, thread, telemetry):
        await thread.run(lambda store: fill(store, DEATHS))
        running = asyncio.create_task(make(thread, answers, telemetry).run())
        while not (answers.has_begun or await thread.run(lambda store: has_failed(store, make.__name__))):
            pass
        assert not answers.has_begun
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("make", [jobs, batches], ids=["jobs", "batches"])
async def test_work_whose_holders_died_less_often_is_begun(tmp_path: Path, make: Any) -> None:
    answers = Noted()
    async with opened(tmp_path) as (_, thread, telemetry):
        await thread.run(lambda store: fill(store, DEATHS - 1))
        running = asyncio.create_task(make(thread, answers, telemetry).run())
        await until(lambda: answers.has_begun)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
