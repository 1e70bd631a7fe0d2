"""The policies for the loss and the return of a real Redis."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from service.quota.bucket import Bucket
from service.quota.errors import QuotaUnavailable
from service.quota.memory_store import MemoryStore
from service.quota.redis_store import RedisStore
from service.quota.shared_store import SharedStore
from service.quota.store import Demand, Draw
from tests.engine.fakes import until
from tests.redis_server import RedisServer

ONE = Demand([Draw(Bucket("one", 1), 1, 1)])


@asynccontextmanager
async def replica(redis: RedisServer, changes: list[bool], *, is_local: bool = True) -> AsyncIterator[SharedStore]:
    """Return the store of a replica, started."""
    local = MemoryStore() if is_local else None
    store = SharedStore(RedisStore(redis.url, 0.3), local, changes.append, probe_s=0.05)
    await store.start()
    try:
        yield store
    finally:
        await store.close()


async def grants(store: SharedStore) -> bool:
    """Return whether the one request per minute is granted."""
    return (await store.take(ONE)).is_granted


@pytest.mark.parametrize("how", ["killed", "hanging"])
async def test_each_goes_on_alone_and_together_again(
    redis: RedisServer, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """While the server is lost, each replica has its own buckets; then they share again. Both are logged once."""
    caplog.set_level(logging.INFO)
    changes: list[bool] = []
    async with replica(redis, changes) as first, replica(redis, []) as second:
        assert [await grants(first), await grants(second)] == [True, False]
        redis.kill() if how == "killed" else redis.pause()
        assert [await grants(first), await grants(second)] == [True, True]
        assert [await grants(first), await grants(second)] == [False, False]
        assert changes == [True]
        redis.start() if how == "killed" else redis.resume()
        await until(lambda: not first.is_lost and not second.is_lost)
        assert changes == [True, False]
        left = [await grants(first), await grants(second)]
        assert left == ([True, False] if how == "killed" else [False, False])  # a killed server has lost its data
    texts = [record.getMessage() for record in caplog.records]
    assert texts.count("the quota store is lost; this replica counts alone until it is back") == 2
    assert texts.count("the quota store is back") == 2


async def test_requests_are_rejected_under_the_other_policy(redis: RedisServer) -> None:
    """Requests that can't be counted are rejected until the server is back."""
    async with replica(redis, [], is_local=False) as store:
        assert await grants(store)
        redis.kill()
        for _ in range(2):
            with pytest.raises(QuotaUnavailable, match="the use of this key can't be counted now"):
                await grants(store)
        redis.start()
        await until(lambda: not store.is_lost)
        assert await grants(store)


async def test_the_server_need_not_be_there_at_the_start(redis: RedisServer) -> None:
    """A replica starts alone, and shares as soon as the server is available."""
    redis.kill()
    changes: list[bool] = []
    async with replica(redis, changes) as store:
        assert store.is_lost
        assert await grants(store)
        redis.start()
        await until(lambda: not store.is_lost)
        assert changes == [True, False]


async def test_tokens_taken_locally_are_returned_locally(redis: RedisServer) -> None:
    """A request that began while the server was lost returns no tokens to the shared bucket."""
    redis.kill()
    async with replica(redis, []) as store:
        reading = await store.take(ONE)
        redis.start()
        await until(lambda: not store.is_lost)
        assert await grants(store)
        reading.give_back(ONE)
        assert not await grants(store)
