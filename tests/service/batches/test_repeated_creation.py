"""A creation of a batch that is repeated while the first one is sent, or while the store does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sluice.v1 import batch_pb2

from service.answering.batches.batches import Batches
from service.answering.errors import StoreUnavailable
from service.generation.errors import InvalidRequest
from service.server.stores import described_line
from service.storage.responses.port import StoreLimits
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from service.storage.responses.store_thread import StoreThread
from tests.engine.fakes import until
from tests.service.batches.batch_calls import chat_line, messages
from tests.service.storage.held_store import HeldStore
from tests.waiting import GUARD_S

LINES = [chat_line("a"), chat_line("b")]


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[Batches, HeldStore]]:
    held = HeldStore(SqliteStore(folder / "responses.sqlite3", StoreLimits(3600, 1 << 20, 1 << 20)), "batches.begin")
    store: Any = held
    thread = StoreThread(lambda: store, GUARD_S)
    yield Batches(thread, None, lambda _: None, described_line), held
    await thread.close()


class Sent:
    """The messages of a client, which sends the requests when the test says so."""

    def __init__(self) -> None:
        self.is_begun = asyncio.Event()
        self.gate = asyncio.Event()

    async def messages(self) -> AsyncIterator[batch_pb2.CreateBatchRequest]:
        description, lines = messages(LINES, request_id="r1")
        yield description
        self.is_begun.set()
        await self.gate.wait()
        yield lines


async def create(batches: Batches) -> batch_pb2.Batch:
    sent = Sent()
    sent.gate.set()
    return await batches.create(sent.messages())


async def test_two_streams_of_one_id_create_one_batch(tmp_path: Path) -> None:
    """The requests of both are never mixed, and the one that is replaced deletes nothing of the other one."""
    async with asyncio.timeout(GUARD_S), opened(tmp_path) as (batches, _):
        sent, calls = (Sent(), Sent()), []
        for each in sent:
            calls.append(asyncio.create_task(batches.create(each.messages())))
            await each.is_begun.wait()
        sent[0].gate.set()
        with pytest.raises(StoreUnavailable):
            await calls[0]
        sent[1].gate.set()
        created = await calls[1]
        assert created.num_requests == len(LINES)
        assert await batches.get(created.id) == await create(batches) == created


async def leave(batches: Batches, held: HeldStore) -> None:
    """Send a batch, whose client leaves while the store does not answer; then let the store continue."""
    held.is_held = True
    call = asyncio.create_task(batches.create(Sent().messages()))
    await until(held.entered.is_set)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    held.is_held = False
    held.gate.set()


async def test_the_first_batch_of_an_id_stays(tmp_path: Path) -> None:
    """A repeated call that is given up has changed nothing: the batch that it has found is not deleted."""
    async with opened(tmp_path) as (batches, held):
        created = await create(batches)
        await leave(batches, held)
        assert await batches.get(created.id) == created


async def test_a_batch_whose_client_left_does_not_exist(tmp_path: Path) -> None:
    """A first call that is given up leaves nothing, and a later one creates the batch."""
    async with opened(tmp_path) as (batches, held):
        await leave(batches, held)
        assert not (await batches.list(batch_pb2.ListBatchesRequest())).batches
        assert (await create(batches)).num_requests == len(LINES)


async def test_repetition_with_more_requests_is_rejected_before_its_end(tmp_path: Path) -> None:
    """A stream without an end would be read for ever, and the ids of its requests kept."""

    async def longer() -> AsyncIterator[batch_pb2.CreateBatchRequest]:
        for message in messages([*LINES, chat_line("c")], request_id="r1"):
            yield message
        raise AssertionError("the stream was read further")

    async with asyncio.timeout(GUARD_S), opened(tmp_path) as (batches, _):
        await create(batches)
        with pytest.raises(InvalidRequest) as rejected:
            await batches.create(longer())
        assert rejected.value.field == "description.request_id"
