"""Buckets and slots of one process, with a driven clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.quota.bucket import PERIOD_S, Bucket
from service.quota.memory_store import MemoryStore
from service.quota.store import Demand, Draw, Slots
from tests.service.quota.fakes import HandClock


def draw(bucket: Bucket, num_tokens: int) -> Draw:
    """Return a draw that requires as many tokens as it takes."""
    return Draw(bucket, num_tokens, num_tokens)


async def takes(store: MemoryStore, bucket: Bucket, num_tokens: int) -> bool:
    """Return whether that number of tokens could be taken."""
    return (await store.take(Demand([draw(bucket, num_tokens)]))).is_granted


async def test_bucket_starts_full_and_is_refilled_over_time() -> None:
    """A full bucket grants its limit at once, and then what is refilled per second."""
    clock = HandClock()
    store, bucket = MemoryStore(clock), Bucket("b", 60)
    assert await takes(store, bucket, 60)
    assert not await takes(store, bucket, 1)
    clock.now += 1
    assert await takes(store, bucket, 1)
    assert not await takes(store, bucket, 1)
    clock.now += 3600
    assert not await takes(store, bucket, 61)
    assert await takes(store, bucket, 60)


async def test_demand_is_granted_exactly_after_the_reported_wait() -> None:
    """After the wait that a rejection reports, and not before, the demand is granted."""
    clock = HandClock()
    store, bucket = MemoryStore(clock), Bucket("b", 90)
    assert await takes(store, bucket, 80)
    reading = await store.take(Demand([draw(bucket, 40)]))
    wait_s = bucket.wait_s(reading.behind_s[0], 40)
    assert wait_s == pytest.approx(20)
    clock.now += wait_s - 0.01
    assert not await takes(store, bucket, 40)
    clock.now += 0.01
    assert await takes(store, bucket, 40)


async def test_demand_is_granted_completely_or_not_at_all() -> None:
    """Tokens are not taken unless the whole demand is granted."""
    store = MemoryStore(HandClock())
    rich, poor, slots = Bucket("rich", 100), Bucket("poor", 1), Slots("p", 1)
    assert await takes(store, poor, 1)
    assert not (await store.take(Demand([draw(rich, 100), draw(poor, 1)], [slots]))).is_granted
    assert (await store.take(Demand([draw(rich, 100)], [slots]))).is_granted
    assert not (await store.take(Demand([], [slots]))).is_granted


async def test_returned_slots_and_tokens_are_available() -> None:
    """A slot is free for the next holder, and tokens are returned to the bucket, up to its limit."""
    store, bucket, slots = MemoryStore(HandClock()), Bucket("b", 10), Slots("p", 1)
    demand = Demand([draw(bucket, 10)], [slots])
    reading = await store.take(demand)
    reading.give_back(demand)
    assert (await store.take(demand)).is_granted
    reading.give_back(Demand([draw(bucket, 30)], [slots]))
    assert not await takes(store, bucket, 11)
    assert await takes(store, bucket, 10)


async def test_bucket_with_a_negative_level_grants_nothing() -> None:
    """A bucket with a negative level grants nothing until it is refilled."""
    clock = HandClock()
    store, bucket = MemoryStore(clock), Bucket("b", 60)
    reading = await store.take(Demand([draw(bucket, 60)]))
    reading.give_back(Demand([Draw(bucket, -120, 0)]))
    clock.now += 120
    assert not await takes(store, bucket, 1)
    clock.now += 1
    assert await takes(store, bucket, 1)


async def test_full_buckets_are_evicted() -> None:
    """After ten thousand callers with one request each, only the newest bucket is stored."""
    clock = HandClock()
    store = MemoryStore(clock)
    for index in range(10_000):
        assert await takes(store, Bucket(f"b{index}", 60), 1)
        clock.now += 0.1
    assert store.num_kept <= 2048


@given(
    limit=st.integers(1, 500),
    steps=st.lists(
        st.tuples(st.floats(0, 90, allow_nan=False), st.integers(1, 200), st.floats(0, 1, allow_nan=False)), max_size=60
    ),
)
async def test_usage_in_any_window_is_bounded(limit: int, steps: list[tuple[float, int, float]]) -> None:
    """For any sequence of demands and returns, the usage in any window is bounded.

    The bound is the limit, for the bucket that was full, plus the tokens refilled during the window.
    """
    clock = HandClock()
    store, bucket = MemoryStore(clock), Bucket("b", limit)
    used: list[tuple[float, int]] = []
    for pause_s, num_tokens, share in steps:
        clock.now += pause_s
        reading = await store.take(Demand([draw(bucket, num_tokens)]))
        if reading.is_granted:
            unused = int(num_tokens * share)
            reading.give_back(Demand([Draw(bucket, unused, 0)]))
            used.append((clock.now, num_tokens - unused))
    for first, (begin, _) in enumerate(used):
        for end, _ in used[first:]:
            num_used = sum(number for at, number in used if begin <= at <= end)
            assert num_used <= limit + (end - begin) * limit / PERIOD_S + 1e-3
