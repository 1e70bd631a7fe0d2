"""The cache events of callers: numbers without gaps, resumption, snapshots, and ends. No engine is involved."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncGenerator

import pytest

from service.engine.client import cache_watch
from service.engine.client.cache_watch import MAX_KEPT_BLOCKS, MAX_READERS, CacheWatch
from service.engine.interface.cache_events import BlocksRemoved, BlocksStored, CacheBatch, CacheCleared
from service.generation.errors import CacheEventsLost, EngineClosed, EngineOverloaded
from tests.engine.fakes import until


def stored(*hashes: int, parent: int | None = None, caller_id: str = "me") -> BlocksStored:
    """Return an event with blocks of two tokens, which are their hashes."""
    return BlocksStored(caller_id, hashes, parent, array("i", [each for each in hashes for _ in range(2)]))


class Scene:
    """A watch, and the callers that the core records."""

    def __init__(self) -> None:
        self.watched: list[frozenset[str]] = []
        self.watch = CacheWatch(self.watched.append)

    async def begin(
        self, number: int = 0, caller_id: str = "me"
    ) -> tuple[AsyncGenerator[CacheBatch, None], CacheBatch]:
        """Return a subscription, and its first batch."""
        subscription = self.watch.subscribe(caller_id, number)
        return subscription, await anext(subscription)


async def test_a_subscription_begins_with_the_state_and_has_every_batch_after_it() -> None:
    scene = Scene()
    subscription, first = await scene.begin()
    assert (first.events, first.num_parts) == ([CacheCleared()], 1)
    assert scene.watched == [frozenset({"me"})]
    scene.watch.add([stored(1, 2), stored(7, caller_id="other"), stored(3, parent=2)])
    scene.watch.add([BlocksRemoved("me", (3,))])
    second, third = await anext(subscription), await anext(subscription)
    assert [second.number, third.number] == [first.number + 1, first.number + 2]
    assert second.events == [stored(1, 2), stored(3, parent=2)]
    later, state = await scene.begin()
    assert state.number == third.number
    assert state.events == [CacheCleared(), stored(1), stored(2, parent=1)]
    assert state.num_blocks == 2
    for each in (subscription, later):
        await each.aclose()


async def test_a_subscription_is_resumed_by_the_number_of_its_next_batch() -> None:
    scene = Scene()
    subscription, first = await scene.begin()
    scene.watch.add([stored(1)])
    scene.watch.add([stored(2)])
    await anext(subscription)
    await subscription.aclose()
    resumed, second = await scene.begin(first.number + 2)
    assert second.events == [stored(2)]
    await resumed.aclose()
    for unknown in (first.number, first.number + 4, 1):
        with pytest.raises(CacheEventsLost):
            await scene.begin(unknown)


async def test_a_subscription_that_reads_too_slowly_ends_with_its_gap() -> None:
    """It holds nothing up, and no more than the limit is kept."""
    scene = Scene()
    slow, _ = await scene.begin()
    fast, _ = await scene.begin()
    scene.watch.add([stored(0)])
    assert (await anext(fast)).events == [stored(0)]
    size = MAX_KEPT_BLOCKS // 4
    for index in range(5):
        scene.watch.add([stored(*range(index * size, (index + 1) * size))])
        await anext(fast)
    with pytest.raises(CacheEventsLost):
        await anext(slow)
    await fast.aclose()


async def test_the_state_is_sent_in_parts_that_end_with_the_newest_number() -> None:
    scene = Scene()
    subscription, first = await scene.begin()
    scene.watch.add([stored(*range(5000))])
    await subscription.aclose()
    subscription, part = await scene.begin()
    parts = [part, await anext(subscription), await anext(subscription)]
    assert [(each.part, each.num_parts, each.number) for each in parts] == [
        (index, 3, first.number + 1 - 2 + index) for index in range(3)
    ]
    assert [len(each.events) for each in parts] == [2049, 2048, 904]
    scene.watch.add([stored(9999)])
    assert (await anext(subscription)).number == parts[-1].number + 1
    await subscription.aclose()


async def test_a_new_process_is_watched_again_and_its_cache_is_empty() -> None:
    scene = Scene()
    subscription, _ = await scene.begin()
    scene.watch.add([stored(1)])
    scene.watch.restart()
    scene.watch.restart()
    assert [(await anext(subscription)).events for _ in range(2)] == [[stored(1)], [CacheCleared()]]
    assert scene.watched == [frozenset({"me"})] * 3
    await subscription.aclose()


async def test_nothing_is_recorded_for_a_caller_without_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is recorded for a while after the last one, so that it can be resumed."""
    monkeypatch.setattr(cache_watch, "KEPT_S", 0.0)
    scene = Scene()
    one, _ = await scene.begin()
    two, _ = await scene.begin()
    await one.aclose()
    await asyncio.sleep(0.001)
    assert scene.watched == [frozenset({"me"})]
    await two.aclose()
    await until(lambda: len(scene.watched) > 1)
    assert scene.watched[-1] == frozenset()


async def test_subscriptions_of_a_caller_are_limited() -> None:
    scene = Scene()
    opened = [(await scene.begin())[0] for _ in range(MAX_READERS)]
    with pytest.raises(EngineOverloaded, match="16 subscriptions"):
        await scene.begin()
    other, _ = await scene.begin(caller_id="other")
    for each in (*opened, other):
        await each.aclose()


async def test_the_end_of_the_engine_ends_all_subscriptions() -> None:
    scene = Scene()
    subscription, _ = await scene.begin()
    waiting = asyncio.ensure_future(anext(subscription))
    await asyncio.sleep(0)
    scene.watch.close()
    with pytest.raises(EngineClosed):
        await waiting
