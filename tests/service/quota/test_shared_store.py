"""The policies for the loss and the return of a real Redis."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from redis.asyncio import Redis

from service.quota.bucket import Bucket
from service.quota.errors import QuotaUnavailable
from service.quota.memory_store import MemoryStore
from service.quota.redis_store import RedisStore
from service.quota.shared_store import SharedStore
from service.quota.store import Demand, Draw
from tests.engine.fakes import until
from tests.redis_server import RedisServer
from tests.waiting import GUARD_S

ONE = Demand([Draw(Bucket("one", 1), 1, 1)])


@asynccontextmanager
async def replica(
    redis: RedisServer, changes: list[bool], *, is_local: bool = True, timeout_s: float = GUARD_S
) -> AsyncIterator[SharedStore]:
    """Return the store of a replica, started."""
    local = MemoryStore() if is_local else None
    store = SharedStore(RedisStore(redis.url, timeout_s), local, changes.append, probe_s=0.05)
    await store.start()
    try:
        yield store
    finally:
        await store.close()


async def grants(store: SharedStore) -> bool:
    """Return whether the one request per minute is granted."""
    return (await store.take(ONE)).is_granted


@dataclass
class Seen:
    """What two replicas granted: before the loss of the server, twice during it, and after it.

    `is_proven` is False if one took the server for lost while it was there, because the machine is slow compared to the
    timeout.
    """

    granted: list[list[bool]] = field(default_factory=list)
    is_proven: bool = False


async def lost_and_back(redis: RedisServer, how: str, timeout_s: float) -> Seen:
    """Let two replicas lose their server, and return what they granted."""
    client = Redis.from_url(redis.url)
    await client.flushall()
    await client.aclose()
    seen = Seen()
    changes: tuple[list[bool], list[bool]] = ([], [])
    async with (
        replica(redis, changes[0], timeout_s=timeout_s) as first,
        replica(redis, changes[1], timeout_s=timeout_s) as second,
    ):
        seen.granted.append([await grants(first), await grants(second)])
        if changes != ([], []):
            return seen
        redis.kill() if how == "killed" else redis.pause()
        seen.granted.append([await grants(first), await grants(second)])
        seen.granted.append([await grants(first), await grants(second)])
        assert changes == ([True], [True])
        redis.start() if how == "killed" else redis.resume()
        await until(lambda: not first.is_lost and not second.is_lost)
        seen.granted.append([await grants(first), await grants(second)])
        seen.is_proven = changes == ([True, False], [True, False])
    return seen


@pytest.mark.parametrize("how", ["killed", "hanging"])
async def test_replicas_count_separately_until_redis_returns(
    redis: RedisServer, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """While the server is lost, each replica has its own buckets; then they share again. Both are logged once."""
    caplog.set_level(logging.INFO)
    timeout_s = GUARD_S if how == "killed" else 0.3
    while not (seen := await lost_and_back(redis, how, timeout_s)).is_proven:
        timeout_s *= 2
        caplog.clear()
    assert seen.granted[:3] == [[True, False], [True, True], [False, False]]
    assert seen.granted[3] == ([True, False] if how == "killed" else [False, False])  # a killed server's data is lost
    texts = [record.getMessage() for record in caplog.records]
    assert texts.count("the quota store is lost; this replica counts alone until it is back") == 2
    assert texts.count("the quota store is back") == 2


async def test_requests_are_rejected_without_redis_if_configured(redis: RedisServer) -> None:
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


async def test_replica_starts_without_redis(redis: RedisServer) -> None:
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
