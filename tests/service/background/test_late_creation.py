"""A creation of a response in the background whose client leaves while the store does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from service.answering.background.background_responses import BackgroundResponses
from service.answering.batches.line_answers import NoDeadline
from service.answering.stored_responses import StoredResponses
from service.contract.responses.background import Event
from service.observability.store_metrics import StoreMetrics
from service.observability.telemetry import Telemetry
from service.storage.responses.port import StoreLimits
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from service.storage.responses.store_thread import StoreThread
from tests.engine.fakes import until
from tests.service.background.background_calls import in_background
from tests.service.storage.held_store import HeldStore
from tests.waiting import GUARD_S


class Planning:
    """Accepts every request, and never generates."""

    async def plan(self, _kind: Any, _request: Any, _deadline: Any, answer_id: str) -> tuple[bytes, list[Event]]:
        created = Event()
        created.created.response.id = answer_id
        created.created.response.background = True
        return b"stream", [created]

    def wake(self) -> None:
        """Do nothing."""


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[BackgroundResponses, HeldStore, StoreThread]]:
    held = HeldStore(SqliteStore(folder / "responses.sqlite3", StoreLimits(3600, 1 << 20, 1 << 20)), "jobs.add")
    store: Any = held
    thread = StoreThread(lambda: store, GUARD_S)
    telemetry = Telemetry(None)
    metrics = StoreMetrics(telemetry)
    planning: Any = Planning()
    stored = StoredResponses(thread, 1 << 20, metrics)
    yield BackgroundResponses(thread, planning, planning, stored, max_unfinished=9, metrics=metrics), held, thread
    await thread.close()
    telemetry.shutdown()


async def leave(responses: BackgroundResponses, held: HeldStore, request: Any) -> None:
    """Send a request, whose client leaves while the store does not answer; then let the store continue."""
    held.is_held = True
    call = asyncio.create_task(responses.create(request, NoDeadline()))
    await until(held.entered.is_set)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    held.is_held = False
    held.gate.set()


async def test_the_first_response_of_an_id_stays(tmp_path: Path) -> None:
    """A repeated call that is given up has changed nothing: the response that it has found is not deleted."""
    request = in_background(serving={"requestId": "r1"})
    async with opened(tmp_path) as (responses, held, thread):
        first = await responses.create(request, NoDeadline())
        await leave(responses, held, request)
        assert await thread.run(lambda store: store.get("", first.id)) is not None
        assert (await responses.create(request, NoDeadline())).id == first.id


async def test_a_new_response_is_deleted(tmp_path: Path) -> None:
    """A first call that is given up leaves no response that its client does not know."""
    async with opened(tmp_path) as (responses, held, thread):
        await leave(responses, held, in_background())
        assert await thread.run(lambda store: store.jobs.claim("h", 5)) is None
