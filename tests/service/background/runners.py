"""Runners of background responses and of batches on a store in a file, with answers that tests control."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from service.answering.background.job_runner import JobRunner
from service.answering.batches.batch_runner import BatchRunner
from service.observability.store_metrics import BatchMetrics
from service.observability.telemetry import Telemetry
from service.storage.responses.port import StoreLimits
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from service.storage.responses.store_thread import StoreThread
from tests.service.storage.held_store import HeldStore
from tests.waiting import GUARD_S

LEASE_S: Final = 60.0  # longer than the tests take


class Endless:
    """Answers that never end. `history` is that of a response which continues none."""

    async def stream(self, *_: Any) -> AsyncGenerator[Any, None]:
        await asyncio.Event().wait()
        yield

    async def history(self, _: Any) -> tuple[()]:
        return ()

    async def answer(self, *_: Any) -> bytes:
        await asyncio.Event().wait()
        return b""


def jobs(thread: StoreThread, answers: Any, _: Telemetry) -> JobRunner:
    return JobRunner(thread, answers, answers, lambda _: (0, ""), max_running=1, lease_s=LEASE_S)  # type: ignore[arg-type, return-value]


def batches(thread: StoreThread, answers: Any, telemetry: Telemetry) -> BatchRunner:
    metrics = BatchMetrics(telemetry)
    return BatchRunner(thread, answers, lambda _: b"", metrics, max_running=1, lease_s=LEASE_S)


@asynccontextmanager
async def opened(folder: Path, method: str = "jobs.claim") -> AsyncIterator[tuple[HeldStore, StoreThread, Telemetry]]:
    held = HeldStore(SqliteStore(folder / "responses.sqlite3", StoreLimits(3600, 1 << 20, 1 << 20)), method)
    store: Any = held
    thread = StoreThread(lambda: store, GUARD_S)
    telemetry = Telemetry(None)
    yield held, thread, telemetry
    await thread.close()
    telemetry.shutdown()
