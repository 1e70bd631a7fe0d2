"""A batch that is created with large messages leaves other calls their turns, of the event loop and of the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from service.answering.batches.batches import Batches
from service.calls.call import Call, enter_call
from service.generation.caller import ANONYMOUS
from service.storage.responses.port import StoreLimits
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from service.storage.responses.store_thread import StoreThread
from tests.service.batches.batch_calls import chat_line, messages
from tests.waiting import GUARD_S

NUM_LINES = 2000
MAX_OF_TURN = 8


class Turns:
    """The turns of an event loop, and the largest number of lines that were checked in one."""

    def __init__(self) -> None:
        self.most = 0
        self._number = 0

    async def count(self) -> None:
        while True:
            await asyncio.sleep(0)
            self._number = 0

    def check(self, _: Any) -> None:
        self._number += 1
        self.most = max(self.most, self._number)


async def test_large_message_is_read_in_turns(tmp_path: Path) -> None:
    turns = Turns()
    limits = StoreLimits(3600, 1 << 30, 1 << 30)
    thread = StoreThread(lambda: SqliteStore(tmp_path / "responses.sqlite3", limits), GUARD_S)
    enter_call(Call("", "", caller=ANONYMOUS))
    batches = Batches(thread, None, turns.check, lambda _: b"")

    async def sent() -> AsyncIterator[Any]:
        for message in messages([chat_line(str(number)) for number in range(NUM_LINES)]):
            yield message

    counting = asyncio.create_task(turns.count())
    created = await batches.create(sent())
    counting.cancel()
    with suppress(asyncio.CancelledError):
        await counting
    await thread.close()
    assert created.num_requests == NUM_LINES
    assert turns.most <= MAX_OF_TURN
