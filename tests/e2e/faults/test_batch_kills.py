"""Batches whose service, engine or database is killed with SIGKILL: each request is answered once, with the same bytes.

BATCH_KILLS is the number of random instants at which a process is killed; `make fuzz` tries 200.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import pytest
from sluice.v1 import batch_pb2, batch_pb2_grpc

from tests.e2e.faults.test_background_kills import MODEL, Service, patient
from tests.service.batches.batch_calls import COMPLETED, IN_PROGRESS, Batch, Line, Result, chat_line, messages
from tests.waiting import GUARD_S

KILLS = int(os.environ.get("BATCH_KILLS", "3"))
NUM_LINES = 60

pytestmark = [pytest.mark.long, pytest.mark.timeout(300 + 120 * KILLS)]


def line_of(number: int) -> Line:
    """Return a line with a random answer that its seed decides."""
    sampling = {"seed": number, "temperature": 2, "topP": 1}
    return chat_line(f"r{number}", f"Write about {number}.", model=MODEL, sampling=sampling, stopping={"maxTokens": 40})


def stub_of(service: Service) -> Any:
    return batch_pb2_grpc.BatchServiceStub(service.channel)


async def create(service: Service, request_id: str) -> str:
    """Return the id of a new batch; a repeated call creates no second one."""

    async def call() -> str:
        stub = stub_of(service)
        sent = messages([line_of(number) for number in range(NUM_LINES)], request_id=request_id)
        created: Batch = (await stub.CreateBatch(iter(sent))).batch
        return created.id

    return await patient(call)


async def ended(service: Service, batch_id: str) -> Batch:
    """Return a batch as soon as it has ended."""
    stub = stub_of(service)
    request = batch_pb2.GetBatchRequest(id=batch_id)
    async with asyncio.timeout(GUARD_S):
        while True:
            batch: Batch = (await patient(lambda: stub.GetBatch(request))).batch
            if batch.status != IN_PROGRESS:
                return batch
            await asyncio.sleep(0.02)


async def answers(service: Service, batch_id: str) -> list[str]:
    """Return the answers of a batch without what depends on the time, and without cached tokens."""
    stub = stub_of(service)
    request = batch_pb2.StreamBatchResultsRequest(id=batch_id)
    results: list[Result] = [each async for each in stub.StreamBatchResults(request)]
    assert [each.index for each in results] == list(range(NUM_LINES))
    for each in results:
        for name in ("id", "created"):
            each.chat.ClearField(name)
        each.chat.usage.ClearField("cached_tokens")
    return list(map(str, results))


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_killed_processes_answer_each_request_once(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The results of a batch through kills equal those of an undisturbed one, each request once."""
    draw = random.Random(11)
    service = Service(tmp_path, request.getfixturevalue("postgres") if store == "postgres" else None)
    victims = ["service", "engine", *(["database"] if store == "postgres" else [])]
    await service.start()
    try:
        first = await create(service, "undisturbed")
        assert (await ended(service, first)).num_succeeded == NUM_LINES
        expected = await answers(service, first)
        for kill in range(KILLS):
            creating = asyncio.create_task(create(service, f"killed {kill}"))
            if draw.random() < 2 / 3:  # else while the batch is being created
                await creating
            await asyncio.sleep(draw.random() * 0.4)
            await service.kill(victims[kill % len(victims)])
            batch = await ended(service, await creating)
            assert (batch.status, batch.num_succeeded, batch.num_failed) == (COMPLETED, NUM_LINES, 0)
            assert await answers(service, batch.id) == expected
    finally:
        await service.close()
