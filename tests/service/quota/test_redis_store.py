"""The store in a real Redis: the results of the memory store, atomicity across replicas, and recovery by time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from service.quota.bucket import PERIOD_S, Bucket
from service.quota.memory_store import MemoryStore
from service.quota.redis_store import RedisStore
from service.quota.store import Demand, Draw, Slots, StoreLost
from tests.engine.fakes import until
from tests.redis_server import RedisServer
from tests.service.quota.fakes import HandClock
from tests.waiting import GUARD_S

_Result = TypeVar("_Result")

MINUTE = Bucket("minute", 1000)
SLOW = Bucket("slow", 1)  # nothing is refilled while a test runs
SLOTS = Slots("slots", 3)
LEASE_S = 2 * GUARD_S


@asynccontextmanager
async def store_of(
    redis: RedisServer, timeout_s: float = GUARD_S, lease_s: float = LEASE_S
) -> AsyncIterator[RedisStore]:
    """Return the store of a replica."""
    store = RedisStore(redis.url, timeout_s, lease_s)
    try:
        yield store
    finally:
        await store.close()


def draw(bucket: Bucket, num_tokens: int) -> Demand:
    """Return a draw that requires as many tokens as it takes."""
    return Demand([Draw(bucket, num_tokens, num_tokens)])


async def test_two_replicas_share_a_bucket(redis: RedisServer) -> None:
    """Tokens taken at one replica are missing at the other; tokens returned at one are available at the other."""
    async with store_of(redis) as first, store_of(redis) as second:
        began = time.monotonic()
        reading = await first.take(draw(MINUTE, 1000))
        assert reading.is_granted
        rejection = await second.take(draw(MINUTE, 500))
        assert not rejection.is_granted
        took_s = time.monotonic() - began
        assert 30 - took_s <= MINUTE.wait_s(rejection.behind_s[0], 500) <= 30
        reading.give_back(draw(MINUTE, 900))
        await until_granted(second, draw(MINUTE, 900))


async def test_concurrent_demands_take_at_most_the_buckets_tokens(redis: RedisServer) -> None:
    """Of two hundred requests at two replicas, as many are granted as the bucket has tokens."""
    bucket = Bucket("burst", 50)
    async with store_of(redis) as first, store_of(redis) as second:
        began = time.monotonic()
        takings = [store.take(Demand([Draw(bucket, 1, 1)])) for store in (first, second) * 100]
        readings = await asyncio.gather(*takings)
        num_granted = sum(reading.is_granted for reading in readings)
        num_come_in = bucket.level(0) * (time.monotonic() - began) / PERIOD_S
        assert 50 <= num_granted <= 50 + num_come_in


async def test_buckets_and_slots_are_taken_together(redis: RedisServer) -> None:
    """Buckets and slots are taken together."""
    async with store_of(redis) as store:
        assert (await store.take(draw(SLOW, 1))).is_granted
        both = Demand([Draw(MINUTE, 1000, 1000), Draw(SLOW, 1, 1)], [SLOTS], "h")
        assert not (await store.take(both)).is_granted
        assert (await store.take(Demand([Draw(MINUTE, 1000, 1000)], [SLOTS], "h"))).is_granted


async def test_slots_are_freed_by_their_holders(redis: RedisServer) -> None:
    """The number of holders is the number of slots, and a released slot is granted again."""
    async with store_of(redis) as store:
        demands = [Demand((), [SLOTS], f"h{index}") for index in range(4)]
        readings = [await store.take(demand) for demand in demands]
        assert [reading.is_granted for reading in readings] == [True, True, True, False]
        assert readings[3].num_held == [3]
        readings[0].give_back(demands[0])
        await until_granted(store, demands[3])


async def test_slots_of_a_dead_process_are_released_after_their_lease(redis: RedisServer) -> None:
    """A holder that stops renewing its lease loses its slot when the lease ends; others keep theirs."""
    async with store_of(redis) as alive, store_of(redis) as dead:
        assert (await alive.take(Demand((), [SLOTS], "alive"))).is_granted
        assert (await dead.take(Demand((), [SLOTS], "dead1"))).is_granted
        assert (await dead.take(Demand((), [SLOTS], "dead2"))).is_granted
        assert not (await alive.take(Demand((), [SLOTS], "new1"))).is_granted
        await dead.close()
        client = Redis.from_url(redis.url)
        (key,) = await client.keys("*slots*")
        for holder in ("dead1", "dead2"):
            await client.zincrby(key, -LEASE_S * 1_000_000, holder)  # as if this time had passed
        await client.aclose()
        assert (await alive.take(Demand((), [SLOTS], "new1"))).is_granted
        assert (await alive.take(Demand((), [SLOTS], "new2"))).is_granted
        assert not (await alive.take(Demand((), [SLOTS], "new3"))).is_granted


async def test_a_living_process_renews_its_leases(redis: RedisServer) -> None:
    """The lease of a held slot is extended again and again."""
    async with store_of(redis, lease_s=0.6) as store:
        assert (await store.take(Demand((), [SLOTS], "alive"))).is_granted
        client = Redis.from_url(redis.url)

        async def end() -> float:
            """Return the end of the lease, or 0 while it is lost because the process was too slow."""
            return max([await client.zscore(key, "alive") or 0 for key in await client.keys("*slots*")], default=0)

        for _ in range(2):
            before = await end()
            async with asyncio.timeout(GUARD_S):
                while await end() <= before:  # noqa: ASYNC110  polls the server
                    await asyncio.sleep(0.02)
        await client.aclose()


async def test_cancelled_demand_is_returned(redis: RedisServer) -> None:
    """A demand that is granted after its caller was cancelled is returned."""
    async with store_of(redis) as store:
        await store.start()
        client = Redis.from_url(redis.url)
        await client.config_resetstat()
        redis.pause()
        taking = asyncio.create_task(store.take(Demand([Draw(SLOW, 1, 1)], [Slots("one", 1)], "gone")))
        await asyncio.sleep(0)  # it has begun
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        redis.resume()
        await until_num_scripts(client, 2)  # the demand and its return
        await client.aclose()
        assert (await store.take(Demand([Draw(SLOW, 1, 1)], [Slots("one", 1)], "next"))).is_granted


async def test_keys_of_full_buckets_and_free_slots_are_deleted(redis: RedisServer) -> None:
    """Keys without information are deleted."""
    async with store_of(redis) as store:
        demand = Demand([Draw(MINUTE, 10, 10)], [SLOTS], "h")
        (await store.take(demand)).give_back(demand)
        client = Redis.from_url(redis.url)
        await until_keys(client, 0)
        await store.take(draw(MINUTE, 1000))
        (key,) = await client.keys("*")
        assert 0 < await client.pttl(key) <= 1000 * (PERIOD_S + 1)
        await client.aclose()


async def test_clock_set_back_does_not_block_callers(redis: RedisServer) -> None:
    """State that was written with a clock an hour ahead counts as written now."""
    async with store_of(redis) as store:
        client = Redis.from_url(redis.url, decode_responses=True)
        await store.take(draw(MINUTE, 500))
        held = Demand((), [SLOTS], "h")
        await store.take(held)
        buckets, slots = sorted(await client.keys("*"), key=lambda key: "slots" in key)
        hour = 3_600_000_000
        state: Any = {name: int(value) + hour for name, value in (await client.hgetall(buckets)).items()}
        await client.hset(buckets, mapping=state)
        await client.zincrby(slots, hour, "h")
        reading = await store.take(draw(MINUTE, 1000))
        assert not reading.is_granted
        assert 0 < MINUTE.wait_s(reading.behind_s[0], 1000) <= 30
        assert (await store.take(Demand((), [SLOTS], "next"))).num_held == [1]
        await client.aclose()


@pytest.mark.parametrize("how", ["killed", "hanging"])
async def test_lost_server_is_reported_within_the_timeout(redis: RedisServer, how: str) -> None:
    """A dead server is reported immediately, a hanging one after the timeout; a restarted one is used again."""
    async with store_of(redis, timeout_s=GUARD_S if how == "killed" else 0.3) as store:
        assert (await answered(partial(store.take, draw(MINUTE, 1)))).is_granted
        redis.kill() if how == "killed" else redis.pause()
        with pytest.raises(StoreLost):
            await store.take(draw(MINUTE, 1))
        redis.start() if how == "killed" else redis.resume()
        await answered(store.start)
        assert (await answered(partial(store.take, draw(MINUTE, 1)))).is_granted


async def test_server_that_rejects_writes_counts_as_lost(redis: RedisServer) -> None:
    """A server that is out of memory, for example, counts as lost."""
    async with store_of(redis) as store:
        client = Redis.from_url(redis.url)
        await client.config_set("maxmemory", "1")
        with pytest.raises(StoreLost, match="maxmemory"):
            await store.start()
        with pytest.raises(StoreLost, match="maxmemory"):
            await store.take(draw(MINUTE, 1))
        await client.aclose()


@pytest.fixture(scope="module")
def shared_redis() -> Iterator[RedisServer]:
    """Return one server for many examples, which empty it first."""
    server = RedisServer()
    yield server
    server.close()


Steps = list[tuple[str, int, int]]


@settings(max_examples=25)
@given(steps=st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 40), st.integers(-30, 40)), max_size=12))
def test_redis_and_memory_store_give_equal_results(shared_redis: RedisServer, steps: Steps) -> None:
    """Any sequence of demands and returns gets the same results from Redis and from memory."""
    asyncio.run(compare(shared_redis, steps))


async def compare(redis: RedisServer, steps: Steps) -> None:
    """Run the same operations on both stores."""
    client = Redis.from_url(redis.url)
    await client.flushall()
    await client.aclose()
    memory = MemoryStore(HandClock())
    async with store_of(redis) as store:
        began = time.monotonic()
        for name, num_tokens, num_back in steps:
            bucket = Bucket(name, 40)
            demand, back = Demand([Draw(bucket, num_tokens, num_tokens)]), Demand([Draw(bucket, num_back, 0)])
            here, there = await memory.take(demand), await store.take(demand)
            # Time passes only for Redis, while these few commands run.
            num_come_in = 40 * (time.monotonic() - began) / PERIOD_S + 0.001
            level = bucket.level(here.behind_s[0])
            if here.is_granted != there.is_granted:
                assert level < num_tokens < level + num_come_in
                return
            assert level - 0.001 <= bucket.level(there.behind_s[0]) <= level + num_come_in
            here.give_back(back)
            there.give_back(back)
            await until(lambda: not store.num_sending)


async def answered(call: Callable[[], Awaitable[_Result]]) -> _Result:
    """Return the result of a call, made again if a slow machine exceeds the short timeout."""
    while True:
        with suppress(StoreLost):
            return await call()


async def until_granted(store: RedisStore, demand: Demand) -> None:
    """Return when the demand is granted."""
    async with asyncio.timeout(GUARD_S):
        while not (await store.take(demand)).is_granted:  # noqa: ASYNC110  polls as a replica would
            await asyncio.sleep(0.02)


async def until_num_scripts(client: Redis, number: int) -> None:
    """Return when the server has run that number of scripts since its statistics were reset."""
    async with asyncio.timeout(GUARD_S):
        while True:
            runs = (await client.info("commandstats")).get("cmdstat_evalsha", {"calls": 0, "failed_calls": 0})
            if runs["calls"] - runs["failed_calls"] == number:  # an unknown script fails, and is loaded
                return
            await asyncio.sleep(0.02)


async def until_keys(client: Redis, number: int) -> None:
    """Return when the server has that number of keys."""
    async with asyncio.timeout(GUARD_S):
        while await client.dbsize() != number:  # noqa: ASYNC110  as above
            await asyncio.sleep(0.02)
