"""The wanted state: when changes reach the store, the listener and other replicas. The clock is driven."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from service.deployment.wanted_state import WantedState
from service.storage.document import DocumentStore, MemoryDocument, SharedDocument
from service.storage.retries import MAX_TRIES
from service.storage.shared_file import SharedFile
from service.storage.shared_text import Outdated, SharedTextLost


class ScriptedStore(DocumentStore[int]):
    """A shared number. `others` is a write of another replica; `loss` is raised instead of returning."""

    is_shared = True

    def __init__(self) -> None:
        self.others: int | None = None
        self.written: list[int] = []
        self.loss: Exception | None = None
        self.behind = 0  # other replicas that don't know the number
        self.num_records = 0

    def read(self) -> int:
        self._raise()
        number, self.others = self.others, None
        return number or 0

    def write(self, document: int) -> None:
        self._raise()
        if self.others is not None:
            raise Outdated
        self.written.append(document)

    def is_newer(self) -> bool:
        self._raise()
        return self.others is not None

    def num_behind(self) -> int:
        self._raise()
        self.num_records += 1
        return self.behind

    def close(self) -> None:
        """Do nothing: no connection is open."""

    def _raise(self) -> None:
        if self.loss is not None:
            raise self.loss


class NumberText:
    """A number as text. A `Format`."""

    def empty(self) -> int:
        return 0

    def parse(self, text: str) -> int:
        return int(text)

    def dump(self, document: int) -> str:
        return str(document)


class Ticks:
    """A `sleep` that returns when the test calls `tick`."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self._next = asyncio.Semaphore(0)
        self._asleep = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self._asleep.set()
        await self._next.acquire()

    async def tick(self) -> None:
        """End one sleep, and return when the next one has begun."""
        await self._asleep.wait()
        self._asleep.clear()
        self._next.release()
        await self._asleep.wait()

    def end(self) -> None:
        """End the last sleep."""
        self._next.release()


def ignore_number(_number: int) -> None:
    """Ignore the document."""


async def ignore(_is_lost: bool) -> None:  # noqa: FBT001  the form of a listener
    """Ignore the document."""


def following(
    state: WantedState[int], ticks: Ticks, on_loss: Callable[[bool], Awaitable[None]] = ignore
) -> asyncio.Task[None]:
    return asyncio.create_task(state.follow(on_loss, sleep=ticks.sleep))


async def test_change_is_based_on_the_newest_document() -> None:
    """Another replica's change is applied first, and the listener gets both in order."""
    store, received = ScriptedStore(), list[int]()
    state = WantedState("numbers", store, 1, received.append)
    store.others = 10
    await state.store(lambda number: number + 1)
    assert (store.written, received, state.newest) == ([11], [10, 11], 11)


async def test_replicas_that_change_a_document_at_once_all_succeed(tmp_path: Path) -> None:
    """A restart of many replicas is such a moment. Each change is made once."""
    file = tmp_path / "numbers"
    stores = [SharedDocument(SharedFile(file), NumberText()) for _ in range(16)]
    states = [WantedState("numbers", store, 0, ignore_number) for store in stores]
    await asyncio.gather(*(state.store(lambda number: number + 1) for state in states))
    assert stores[0].read() == 16


async def test_change_fails_if_others_are_always_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    store, paused = ScriptedStore(), list[float]()

    async def overtaken(seconds: float) -> None:
        paused.append(seconds)
        store.others = (store.others or 0) + 1

    store.others = 1
    monkeypatch.setattr(asyncio, "sleep", overtaken)
    monkeypatch.setattr(store, "read", lambda: 0)
    with pytest.raises(Outdated):
        await WantedState("numbers", store, 1, ignore_number).store(lambda number: number + 1)
    assert len(paused) == MAX_TRIES - 1
    assert sum(paused) <= 3.5
    assert store.written == []


@pytest.mark.parametrize("loss", [OSError("disk"), SharedTextLost("away")])
async def test_change_that_cannot_be_stored_is_discarded(loss: Exception) -> None:
    store, received = ScriptedStore(), list[int]()
    state = WantedState("numbers", store, 1, received.append)
    store.loss = loss
    with pytest.raises(type(loss)):
        await state.store(lambda number: number + 1)
    assert (received, state.newest) == ([], 1)


async def test_without_a_shared_store_a_change_is_kept_in_memory() -> None:
    """The listener gets it as well, and there are no other replicas to wait for."""
    received = list[int]()
    state = WantedState("numbers", MemoryDocument(1), 1, received.append)
    await state.store(lambda number: number + 1)
    await state.until_known()
    assert (received, state.newest, state.is_shared) == ([2], 2, False)


async def test_change_is_complete_once_every_replica_knows_it() -> None:
    """The store is asked until every other replica has recorded that it knows the change; each refresh records, too."""
    store, ticks, asks = ScriptedStore(), Ticks(), Ticks()
    state = WantedState[int]("numbers", store, 1, lambda _: None, records_reads=True)
    await state.until_known()
    store.behind = 2
    known = asyncio.create_task(state.until_known(asks.sleep))
    await asks.tick()
    assert not known.done()
    store.behind = 0
    asks.end()
    await known
    num_records, task = store.num_records, following(state, ticks)
    await ticks.tick()
    assert store.num_records == num_records + 1
    store.behind, store.loss = 1, SharedTextLost("away")
    await state.until_known()  # the others follow the change when the store is back
    task.cancel()


async def test_loss_of_the_store_and_its_end_are_logged_once() -> None:
    """The known document stays meanwhile."""
    store, ticks, losses = ScriptedStore(), Ticks(), list[bool]()
    state = WantedState[int]("numbers", store, 1, lambda _: None)

    async def on_loss(is_lost: bool) -> None:  # noqa: FBT001  the form of a listener
        losses.append(is_lost)

    task = following(state, ticks, on_loss)
    store.loss = SharedTextLost("away")
    await ticks.tick()
    await ticks.tick()
    assert (losses, state.newest) == ([True], 1)
    store.loss, store.others = None, 5
    await ticks.tick()
    assert (losses, state.newest) == ([True, False], 5)
    task.cancel()
