"""Charges of requests to their callers' limits: taking, returning and rejecting."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from service.generation.caller import Caller, Limits
from service.generation.errors import EngineFailed, EngineOverloaded, InvalidRequest
from service.generation.outputs.events import Usage
from service.quota.errors import ConcurrencyLimited, LimitExceeded, RateLimited
from service.quota.limit import Measure
from tests.service.quota.fakes import MODEL, Desk, ask, caller_with

LATER = EngineOverloaded("full", 1)


async def test_requests_per_minute_are_limited() -> None:
    """The third of two requests per minute is rejected with the time until one is refilled; then it is admitted."""
    desk, caller = Desk(), caller_with(requests_per_minute=2)
    await desk.spend(caller, 1, 1)
    await desk.spend(caller, 1, 1)
    with pytest.raises(RateLimited, match="the limit of this key is 2 requests a minute; try again in 30 s") as caught:
        await desk.spend(caller, 1, 1)
    assert caught.value.retry_after_s == pytest.approx(30)
    desk.clock.now += 30
    await desk.spend(caller, 1, 1)


async def test_unused_tokens_are_returned_at_the_end() -> None:
    """The maximum of the answer is held while the request runs; at its end, unused tokens are returned."""
    desk, caller = Desk(), caller_with(input_tokens_per_minute=100, output_tokens_per_minute=100)
    async with desk.request(caller, 40, 90) as charge:
        charge.count(lambda: Usage(40, 5))
        assert desk.headers["x-ratelimit-remaining-input-tokens"] == "60"
        assert desk.headers["x-ratelimit-remaining-output-tokens"] == "10"
        with pytest.raises(RateLimited, match="of which 10 are left now, and this request needs 20") as caught:
            await desk.spend(caller, 1, 1, max_tokens=20)
        assert caught.value.retry_after_s == pytest.approx(6)
    assert desk.headers["x-ratelimit-remaining-output-tokens"] == "95"
    assert desk.headers["x-ratelimit-remaining-input-tokens"] == "60"


async def test_answer_without_max_tokens_reserves_the_expected_tokens() -> None:
    """Ten tokens are held for each choice; any excess is charged at the end."""
    desk, caller = Desk(expected=10), caller_with(output_tokens_per_minute=60)
    async with desk.request(caller, 1, None, n=2) as charge:
        assert desk.headers["x-ratelimit-remaining-output-tokens"] == "40"
        charge.count(lambda: Usage(1, 120))
    with pytest.raises(RateLimited) as caught:
        await desk.spend(caller, 1, 1)
    assert caught.value.retry_after_s == pytest.approx(61)


async def test_expectation_never_exceeds_the_limit() -> None:
    """A caller with 5 tokens per minute is served even without max_tokens."""
    desk = Desk(expected=1000)
    await desk.spend(caller_with(output_tokens_per_minute=5), 1, 5)


@pytest.mark.parametrize(
    ("limits", "spent", "field"),
    [
        ({"input_tokens_per_minute": 10}, (11, 1, 1), "prompts"),
        ({"output_tokens_per_minute": 10}, (1, 1, 11), "stopping.max_tokens"),
    ],
)
async def test_request_larger_than_a_bucket_has_no_retry_delay(
    limits: dict[str, int], spent: tuple[int, int, int], field: str
) -> None:
    """A request larger than a bucket gets no retry delay, and costs the caller no tokens."""
    desk, caller = Desk(), caller_with(**limits)
    with pytest.raises(
        LimitExceeded, match=r"needs 11, but the limit of this key is 10 .* it can't be served at any time"
    ) as caught:
        await desk.spend(caller, *spent)
    assert caught.value.field == field
    await desk.spend(caller, 10, 10, 10)


async def test_limit_of_zero_rejects_everything() -> None:
    """A limit of zero rejects requests without a retry delay."""
    caller = Caller(id="k1", limits_by_model={MODEL: Limits(requests_per_minute=0)})
    with pytest.raises(LimitExceeded, match="a request, but the limit of this key with the model 'm' is 0 requests"):
        await Desk().spend(caller, 1, 1)


async def test_max_tokens_and_n_have_limits() -> None:
    """max_tokens and n above the limits are rejected by name, and default to the limits."""
    desk, caller = Desk(), caller_with(max_tokens=50, max_n=2)
    with pytest.raises(LimitExceeded, match="must be at most 50, the limit of this key, not 51") as caught:
        await desk.spend(caller, 1, 1, max_tokens=51)
    assert caught.value.field == "stopping.max_tokens"
    with pytest.raises(LimitExceeded, match="must be at most 2, the limit of this key, not 3") as caught:
        async with desk.request(caller, n=3):
            pass
    assert caught.value.field == "n"
    async with desk.quota.admit(caller, MODEL, lambda statuses: None) as charge:
        assert charge.bound(ask()).stopping.max_tokens == 50
        assert charge.bound(ask(7)).stopping.max_tokens == 7


async def test_batches_have_slots_of_their_own() -> None:
    """Requests of batches are limited to as many as others, and neither takes the slots of the other."""
    desk, caller = Desk(), caller_with(concurrent_requests=1)
    of_batch = replace(caller, is_batch=True)
    async with desk.request(of_batch), desk.request(caller):
        for each in (caller, of_batch):
            with pytest.raises(ConcurrencyLimited):
                await desk.spend(each, 1, 1)


async def test_concurrent_requests_are_limited() -> None:
    """A slot is held until the request ends in any way, and no longer."""
    desk, caller = Desk(), caller_with(concurrent_requests=1)
    for error in (None, LATER, InvalidRequest("f", "bad"), asyncio.CancelledError()):
        try:
            async with desk.request(caller):
                with pytest.raises(ConcurrencyLimited, match="is 1 requests at a time; try again when one has ended"):
                    await desk.spend(caller, 1, 1)
                if error is not None:
                    raise error
        except (EngineOverloaded, InvalidRequest, asyncio.CancelledError):
            pass
    await desk.spend(caller, 1, 1)


@pytest.mark.parametrize(
    ("error", "output", "left"),
    [
        (LATER, 0, ("10", "100", "100")),  # rejected: it costs nothing
        (EngineFailed("died"), 0, ("10", "100", "100")),
        (EngineFailed("died"), 7, ("10", "100", "100")),  # although some tokens were generated
        (asyncio.CancelledError(), 0, ("9", "60", "100")),  # the client disconnected during prefill
        (asyncio.CancelledError(), 7, ("9", "60", "93")),
    ],
)
async def test_cost_depends_on_the_outcome(error: BaseException, output: int, left: tuple[str, str, str]) -> None:
    """Failures of the service are free; generated tokens, and a prompt that the engine accepted, are charged."""
    desk = Desk()
    caller = caller_with(requests_per_minute=10, input_tokens_per_minute=100, output_tokens_per_minute=100)

    async def end() -> None:
        async with desk.request(caller, 40, 50) as charge:
            charge.count(lambda: Usage(40, output))
            raise error

    with pytest.raises(type(error)):
        await end()
    names = ("requests", "input-tokens", "output-tokens")
    assert tuple(desk.headers[f"x-ratelimit-remaining-{name}"] for name in names) == left


async def test_request_before_its_admission_costs_no_tokens() -> None:
    """A caller that cancels earlier, or whose content is rejected, is charged for the request only."""
    desk = Desk()
    caller = caller_with(requests_per_minute=10, input_tokens_per_minute=100)
    with pytest.raises(InvalidRequest):
        async with desk.request(caller, 40):
            raise InvalidRequest("f", "bad")
    assert desk.headers["x-ratelimit-remaining-requests"] == "9"
    assert desk.headers["x-ratelimit-remaining-input-tokens"] == "100"


async def test_empty_buckets_reject_on_arrival() -> None:
    """A caller without tokens left is rejected before its prompt is prepared; the request isn't counted."""
    desk, caller = Desk(), caller_with(requests_per_minute=10, input_tokens_per_minute=60)
    await desk.read(caller, 60)
    with pytest.raises(RateLimited, match="60 input tokens a minute"):
        async with desk.quota.admit(caller, MODEL, lambda statuses: None):
            pytest.fail("it was let in")
    desk.clock.now += 1
    await desk.read(caller, 1)
    assert desk.headers["x-ratelimit-remaining-requests"] == "8"


async def test_limits_of_key_and_model_and_of_the_model_all_apply() -> None:
    """The narrowest limit rejects, and the error names its owner; limits shared by all callers are in no headers."""
    caller = Caller(
        id="k1", limits=Limits(requests_per_minute=9), limits_by_model={MODEL: Limits(requests_per_minute=2)}
    )
    desk = Desk(by_model={MODEL: Limits(requests_per_minute=3)})
    await desk.spend(caller, 1, 1)
    assert (desk.headers["x-ratelimit-limit-requests"], desk.headers["x-ratelimit-remaining-requests"]) == ("2", "1")
    await desk.spend(caller, 1, 1)
    with pytest.raises(RateLimited, match="of this key with the model 'm' is 2 requests a minute"):
        await desk.spend(caller, 1, 1)
    await desk.spend(Caller(id="k2"), 1, 1)
    assert desk.headers == {}
    with pytest.raises(RateLimited, match="of the model 'm' for all callers together is 3 requests a minute"):
        await desk.spend(Caller(id="k2"), 1, 1)


async def test_keys_have_separate_buckets() -> None:
    """Keys have separate buckets, whatever characters their ids and models contain."""
    desk = Desk()
    first = Caller(id="a/b", limits=Limits(requests_per_minute=1))
    second = Caller(id="a", limits_by_model={MODEL: Limits(requests_per_minute=1)})
    third = Caller(id="a%2Fb", limits=Limits(requests_per_minute=1))
    for caller in (first, second, third):
        await desk.spend(caller, 1, 1)


async def test_use_and_rejections_are_reported() -> None:
    """The tokens of each request are reported once, and rejections by their limits."""
    desk, caller = Desk(), caller_with(requests_per_minute=1, max_n=1)
    await desk.spend(caller, 12, 3)
    with pytest.raises(RateLimited):
        await desk.spend(caller, 12, 3)
    desk.clock.now += 60
    with pytest.raises(LimitExceeded):
        async with desk.request(caller, n=2):
            pass
    assert desk.counts.used == [("k1", MODEL, 12, 3)]
    assert desk.counts.rejections == [("k1", MODEL, Measure.REQUESTS), ("k1", MODEL, Measure.MAX_N)]


async def test_rate_limit_headers_follow_openais() -> None:
    """The headers have limit, rest and time of the reset; `tokens` is the limit with the smaller fraction left."""
    desk = Desk()
    caller = caller_with(requests_per_minute=10, input_tokens_per_minute=600, output_tokens_per_minute=6000)
    async with desk.request(caller, 150, 3000):
        assert desk.headers == {
            "x-ratelimit-limit-requests": "10",
            "x-ratelimit-remaining-requests": "9",
            "x-ratelimit-reset-requests": "6s",
            "x-ratelimit-limit-tokens": "6000",
            "x-ratelimit-remaining-tokens": "3000",
            "x-ratelimit-reset-tokens": "30s",
            "x-ratelimit-limit-input-tokens": "600",
            "x-ratelimit-remaining-input-tokens": "450",
            "x-ratelimit-reset-input-tokens": "15s",
            "x-ratelimit-limit-output-tokens": "6000",
            "x-ratelimit-remaining-output-tokens": "3000",
            "x-ratelimit-reset-output-tokens": "30s",
        }


@pytest.mark.parametrize(("used", "reset"), [(0, "0s"), (60, "6ms"), (15_000, "1.5s"), (1_250_000, "2m5s")])
async def test_resets_are_formatted_as_go_durations(used: int, reset: str) -> None:
    """The format is that of Go."""
    desk, caller = Desk(), caller_with(output_tokens_per_minute=600_000)
    async with desk.request(caller, 1, 600_000) as charge:
        charge.count(lambda: Usage(1, used))
    assert desk.headers["x-ratelimit-reset-tokens"] == reset
