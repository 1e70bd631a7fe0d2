"""Runners of a service that stops: they hold no work that others could do, while the service ends its other calls."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from service.answering.background.caller_snapshot import to_bytes
from service.generation.caller import ANONYMOUS
from service.storage.responses.batch_port import BatchRecord, NewLine
from service.storage.responses.port import Job, ResponseRecord, ResponseStore
from tests.engine.fakes import until
from tests.service.background.runners import LEASE_S, Endless, batches, jobs, opened
from tests.service.batches.batch_calls import chat_line

NUM = 3


def fill(store: ResponseStore) -> None:
    """Store three responses to generate, and a batch of three requests."""
    for number in range(NUM):
        record = ResponseRecord("", f"r{number}", store.now_ns(), "", b"", b"")
        store.jobs.add(Job(record, to_bytes(ANONYMOUS), b"stream"), NUM)
    now_ns = store.now_ns()
    store.batches.begin(BatchRecord("", "b", now_ns, now_ns + 3600 * 10**9, b"", to_bytes(ANONYMOUS)))
    lines = [NewLine(chat_line(str(number)).SerializeToString()) for number in range(NUM)]
    store.batches.append("", "b", lines)
    store.batches.complete("", "b", b"")


def num_held(folder: Path, kind: str) -> int:
    """Return how much work a process holds."""
    table = "jobs" if kind == "jobs" else "batch_lines"
    with closing(sqlite3.connect(folder / "responses.sqlite3")) as connection:
        query = f"SELECT count(*) FROM {table} WHERE holder != ''"  # noqa: S608  constants
        number: int = connection.execute(query).fetchone()[0]
        return number


def num_claimed(store: ResponseStore, kind: str) -> int:
    """Return how much work another process can claim."""
    if kind == "batches":
        return len(store.batches.claim("other", LEASE_S, NUM))
    return sum(store.jobs.claim("other", LEASE_S) is not None for _ in range(NUM))


@pytest.mark.parametrize("make", [jobs, batches], ids=["jobs", "batches"])
@pytest.mark.parametrize("is_claiming", [False, True])
async def test_closed_runner_holds_nothing(tmp_path: Path, make: Any, is_claiming: bool) -> None:  # noqa: FBT001  a parameter
    """It releases what it has, also what it was about to claim, and claims nothing although its loop still runs."""
    kind = make.__name__
    async with opened(tmp_path, f"{kind}.claim") as (held, thread, telemetry):
        await thread.run(fill)
        runner = make(thread, Endless(), telemetry)
        held.is_held = is_claiming
        running = asyncio.create_task(runner.run())
        if is_claiming:
            await until(held.entered.is_set)
        else:
            await until(lambda: num_held(tmp_path, kind) > 0)
        end = asyncio.create_task(runner.close())
        await asyncio.sleep(0)
        held.is_held = False
        held.gate.set()
        await end
        for _ in range(20):  # the loop of the runner has as many turns
            await thread.run(lambda store: None)
        assert await thread.run(lambda store: num_claimed(store, kind)) == NUM
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
