"""What a caller has used, and what is left of its limits."""

from __future__ import annotations

import time

import pytest

from service.generation.caller import Caller, Limits
from service.generation.outputs.events import Usage
from service.quota.errors import LimitExceeded, RateLimited
from service.quota.redis_store import RedisStore
from service.quota.usage import UsageRecords
from tests.redis_server import RedisServer
from tests.service.quota.fakes import MODEL, Desk, caller_with
from tests.waiting import GUARD_S


async def state(desk: Desk, caller: Caller) -> dict[tuple[str, str], tuple[int, int | None, float | None]]:
    """Return the limit, its rest and the time until it is complete, by measure and model."""
    usage = await desk.quota.usage_of(caller)
    return {
        (each.limit.measure.value, each.limit.model): (each.limit.value, each.num_left, each.reset_s)
        for each in usage.limits
    }


async def test_usage_is_counted_by_caller_and_model() -> None:
    """Tokens, requests and rejections are those of the caller only, as the observer reports them."""
    desk = Desk()
    caller, other = caller_with(max_n=2), Caller(id="k2")
    await desk.spend(caller, 5, 7)
    await desk.spend(caller, 1, 2)
    await desk.spend(other, 100, 100)
    with pytest.raises(LimitExceeded):
        async with desk.request(caller, n=3):
            raise AssertionError
    used = (await desk.quota.usage_of(caller)).used.by_model
    assert list(used) == [MODEL]
    counted = used[MODEL]
    assert (counted.num_requests, counted.num_input, counted.num_output, counted.num_rejected) == (2, 6, 9, 1)
    mine = [each for each in desk.counts.used if each[0] == "k1"]
    assert (counted.num_input, counted.num_output) == (sum(each[2] for each in mine), sum(each[3] for each in mine))


async def test_usage_reports_the_remaining_limits() -> None:
    """Limits per minute and of concurrent requests have a rest, 0 in debt; others have none."""
    desk = Desk(by_model={MODEL: Limits(requests_per_minute=5)})
    caller = Caller(
        id="k1",
        limits=Limits(requests_per_minute=10, output_tokens_per_minute=60, concurrent_requests=3, max_tokens=99),
        limits_by_model={"a*": Limits(requests_per_minute=0), MODEL: Limits(input_tokens_per_minute=120)},
    )
    async with desk.request(caller, 6, 1) as charge:
        charge.count(lambda: Usage(6, 1))
        for _ in range(3):
            held = await state(desk, caller)
        assert held["concurrent_requests", ""] == (3, 2, None)
    await desk.spend(caller, 6, 90, 1)  # more than expected
    assert await state(desk, caller) == {
        ("requests_per_minute", ""): (10, 8, 12.0),
        ("output_tokens_per_minute", ""): (60, 0, pytest.approx(90, abs=2)),
        ("concurrent_requests", ""): (3, 3, None),
        ("max_tokens", ""): (99, None, None),
        ("requests_per_minute", "a*"): (0, 0, 0.0),
        ("input_tokens_per_minute", MODEL): (120, 108, 6.0),
    }


async def test_reading_never_rejects() -> None:
    """A caller whose limit is used up can read its usage."""
    desk = Desk()
    caller = caller_with(requests_per_minute=1, concurrent_requests=1)
    async with desk.request(caller):
        with pytest.raises(RateLimited):
            await desk.spend(caller, 1, 1)
        assert await state(desk, caller) == {
            ("requests_per_minute", ""): (1, 0, 60.0),
            ("concurrent_requests", ""): (1, 0, None),
        }


@pytest.mark.slow
async def test_remaining_limits_in_redis_include_all_replicas(redis: RedisServer) -> None:
    """A replica shows what requests at another one have left; reading takes no slot and no tokens there."""
    first, second = (Desk(RedisStore(redis.url, GUARD_S)) for _ in range(2))
    caller = caller_with(requests_per_minute=600_000, concurrent_requests=4)
    began = time.monotonic()
    async with first.request(caller):
        for _ in range(5):
            seen = await state(second, caller)
        assert seen["concurrent_requests", ""][:2] == (4, 3)
        refilled = 10_000 * (time.monotonic() - began)
        assert 599_999 <= (seen["requests_per_minute", ""][1] or 0) <= 599_999 + refilled
    await first.quota.close()
    await second.quota.close()


def test_evicted_callers_are_counted_from_zero() -> None:
    """Above the limit the least recent caller is forgotten, and its next count begins at that time."""
    now = iter(range(1, 10))
    records = UsageRecords(2, lambda: next(now))
    for name in ("a", "b", "a", "c"):
        records.count(name).of("m").num_requests += 1
    assert (records.of("a").of("m").num_requests, records.of("a").since_ns) == (2, 1)
    assert (records.of("b").by_model, records.of("b").since_ns) == ({}, 2)
    assert records.of("c").since_ns == 1
