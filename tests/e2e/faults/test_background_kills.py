"""Responses in the background whose service, engine or database is killed: none is lost, doubled or changed.

BACKGROUND_KILLS is the number of random instants at which a process is killed; `make fuzz` tries 200.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest
from grpc import aio
from sluice.v1 import response_event_pb2, response_item_pb2, response_pb2, response_pb2_grpc, stored_response_pb2

from tests.e2e.stack import ROOT, child_pids, free_ports
from tests.postgres_server import PostgresServer
from tests.service.servicers.responses.test_response import message_item, response_request
from tests.waiting import GUARD_S

KILLS = int(os.environ.get("BACKGROUND_KILLS", "4"))
BATCH = 3  # responses that are created before each kill
MODEL = "sluice-demo"
LOST = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.CANCELLED,  # a busy service that starts did not take up the call in time
}
Event = response_event_pb2.StreamResponseResponse
Result = TypeVar("Result")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 120 * KILLS)]


class Service:
    """A service with the bundled model and a store, which can be killed and started again on the same port."""

    def __init__(self, folder: Path, postgres: PostgresServer | None) -> None:
        (self._port,) = free_ports(1)
        self._file = folder / "responses.sqlite3"
        self._postgres = postgres
        self.channel = aio.insecure_channel(f"127.0.0.1:{self._port}", [("grpc.max_reconnect_backoff_ms", 100)])
        self.stub: Any = response_pb2_grpc.ResponseServiceStub(self.channel)

    async def start(self) -> None:
        """Start the process, which serves later."""
        flags = {
            "port": self._port, "metrics-port": 0, "model": f"{MODEL}={ROOT / 'demo' / 'model'}", "dtype": "float32",
            "stored-responses.timeout-s": GUARD_S, "stored-responses.lease-s": 1, "log-level": "error",
        }  # fmt: skip
        if self._postgres is None:
            flags["stored-responses.file"] = self._file
        else:
            flags["stored-responses.postgres-url"] = self._postgres.url
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "service", *(f"--{name}={value}" for name, value in flags.items()), cwd=ROOT
        )

    async def kill(self, victim: str) -> None:
        """Kill the service or the database, which are started again, or the engine, which the service starts again."""
        if victim == "database" and self._postgres is not None:
            self._postgres.kill()
            await asyncio.to_thread(self._postgres.start)
            return
        if victim == "engine":
            for pid in child_pids(self._process.pid)[:1]:
                os.kill(pid, signal.SIGKILL)
            return
        self._process.kill()
        await self._process.wait()
        await self.start()

    async def close(self) -> None:
        """End the process, which must be running."""
        await self.channel.close()
        assert self._process.returncode is None
        self._process.kill()
        await self._process.wait()

    def counts(self) -> tuple[int, int]:
        """Return the numbers of responses and of jobs in the store."""
        if self._postgres is not None:
            query = "SELECT (SELECT count(*) FROM sluice.responses), (SELECT count(*) FROM sluice.jobs)"
            ((num_responses, num_jobs),) = self._postgres.execute(query)
            return int(str(num_responses)), int(str(num_jobs))
        with sqlite3.connect(self._file) as file:
            (num_responses,) = file.execute("SELECT count(*) FROM responses").fetchone()
            (num_jobs,) = file.execute("SELECT count(*) FROM jobs").fetchone()
        return num_responses, num_jobs


async def patient(call: Callable[[], Awaitable[Result]]) -> Result:
    """Return the result of a call, which is repeated while no process serves it."""
    async with asyncio.timeout(GUARD_S):
        while True:
            try:
                return await call()
            except aio.AioRpcError as error:
                if error.code() not in LOST:
                    raise
                await asyncio.sleep(0.05)


def request_of(number: int) -> response_pb2.CreateResponseRequest:
    """Return a request of one of a few kinds, each with an id of its own."""
    return response_request(
        model=MODEL, background=True, store=True, maxOutputTokens=60,
        sampling={"seed": number % BATCH, "temperature": 2, "topP": 1},
        input=[message_item(f"Write about the number {number % BATCH}.")], serving={"requestId": f"r{number}"},
    )  # fmt: skip


async def create(service: Service, number: int) -> str:
    """Return the id of a new response."""
    request = request_of(number)

    async def call() -> str:
        response: response_item_pb2.Response = (await service.stub.CreateResponse(request)).response
        return response.id

    return await patient(call)


async def events_of(service: Service, response_id: str) -> list[Event]:
    """Return all events of a response, in spite of broken streams."""
    events: list[Event] = []

    async def call() -> None:
        after = events[-1].sequence_number if events else None
        request = stored_response_pb2.FollowResponseRequest(id=response_id, starting_after=after)
        async for event in service.stub.FollowResponse(request):
            event.client_data = b""
            if after is None or event.sequence_number > after:  # the last one is always sent
                events.append(event)

    await patient(call)
    return events


def comparable(events: list[Event]) -> list[str]:
    """Return events without ids, times and cached tokens, in which answers to equal requests differ."""
    response_id = events[0].created.response.id
    times = r"\s*((created|completed) \{(\s+(seconds|nanos): \d+)+\s+\}|cached_tokens: \d+)"
    return [re.sub(times, "", str(event)).replace(response_id, "ID") for event in events]


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
async def test_killed_processes_lose_and_double_nothing(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Every response has the events of an undisturbed one, also for a client that follows it through the kills."""
    draw = random.Random(7)
    service = Service(tmp_path, request.getfixturevalue("postgres") if store == "postgres" else None)
    victims = ["service", "engine", *(["database"] * 2 if store == "postgres" else [])]
    await service.start()
    try:
        expected = [comparable(await events_of(service, await create(service, number))) for number in range(BATCH)]
        numbers = range(BATCH, BATCH * (KILLS + 1))
        followed: list[asyncio.Task[list[Event]]] = []
        for kill in range(KILLS):

            async def follow(number: int) -> list[Event]:
                return await events_of(service, await create(service, number))

            followed += [asyncio.create_task(follow(number)) for number in numbers[kill * BATCH : (kill + 1) * BATCH]]
            if kill % 2 == 0:  # else in the middle of the start
                await followed[-BATCH - 1 if kill else -1]
            await asyncio.sleep(draw.random() * 0.3)
            await service.kill(draw.choice(victims))
        found = await asyncio.gather(*followed)
        for number, events in zip(numbers, found, strict=True):
            for sent, wanted in zip(comparable(events), expected[number % BATCH], strict=True):
                assert sent == wanted
        for events in found:
            assert await events_of(service, events[0].created.response.id) == events
        assert service.counts() == (BATCH * (KILLS + 1), 0)
    finally:
        await service.close()
