"""Rejections that the gateway repeats: their keys, their duration, and that callers can't distinguish them."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import grpc
import httpx
import pytest

from gateway.dialects.seam.failure import Failure, Reason
from gateway.upstream import client
from gateway.upstream.pushback import Pushback
from tests.gateway import fakes
from tests.gateway.conftest import Gateway, chat_body

FULL = fakes.Status(
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    "the request would wait for about 5.0 s to begin; the limit is 2.0 s",
    fakes.error_info("QUEUE_FULL", for_all="true"),
    fakes.retry_info(3),
)
WHO = ("Bearer k", "m")
BUSY = Failure(Reason.QUEUE_FULL, "no room", retry_after_s=3, values={"for_all": "true"})
HURRIED = Failure(Reason.QUEUE_FULL, "no room within half of the deadline", retry_after_s=3)
WRONG = Failure(Reason.INVALID_FIELD, "wrong")
AT_ONCE = 32  # calls that are sent at once although the service rejects them
PATHS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/v1/chat/completions", {}),
    ("/v1/chat/completions", {"stream": True}),
    ("/v1/messages", {"max_tokens": 9}),
    ("/serving-endpoints/m/invocations", {}),
)


class Clock:
    """A clock that is set manually."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def ask(pushback: Pushback, rejection: Failure | None, who: tuple[str, str] = WHO) -> bool:
    """Make a call; return whether it reached the service, which admits or rejects it."""
    was_asked = False

    def serve() -> None:
        nonlocal was_asked
        was_asked = True
        if rejection is not None:
            raise rejection

    try:
        with pushback.guard(who):
            serve()
    except Failure:
        return was_asked
    return True


def num_asked(pushback: Pushback, count: int, rejection: Failure | None, who: tuple[str, str] = WHO) -> int:
    return sum(ask(pushback, rejection, who) for _ in range(count))


def test_all_calls_are_sent_until_the_service_rejects_one() -> None:
    pushback = Pushback(Clock())
    assert num_asked(pushback, 500, None) == num_asked(pushback, 500, WRONG) == 500
    assert num_asked(pushback, 500, HURRIED) == 500, "it holds for that request only"
    assert ask(pushback, BUSY)
    assert ask(pushback, None), "one rejection keeps nobody out"


def test_after_a_rejection_calls_are_limited_to_twenty_per_second() -> None:
    """After a rejection a burst of calls is sent, then twenty per second."""
    clock = Clock()
    pushback = Pushback(clock)
    assert num_asked(pushback, 500, BUSY) == 1 + AT_ONCE
    clock.now += 1.0
    assert num_asked(pushback, 500, BUSY) == 20


def test_other_keys_and_models_are_not_limited() -> None:
    pushback = Pushback(Clock())
    num_asked(pushback, 500, BUSY)
    assert num_asked(pushback, 500, None, ("Bearer polite", "m")) == 500
    assert num_asked(pushback, 500, None, ("Bearer k", "another")) == 500


def test_twice_as_many_are_sent_as_are_admitted() -> None:
    """If one call in three is admitted, twice the number of admitted calls is sent; without rejections, all are."""
    clock = Clock()
    pushback = Pushback(clock)
    num_asked(pushback, 500, BUSY)
    clock.now += 1.0  # twenty to find out
    num_admitted = 0
    for index in range(1000):
        rejection = BUSY if index % 3 else None
        num_admitted += ask(pushback, rejection) and rejection is None
    assert 10 < num_admitted < 30
    clock.now += 1.0
    assert num_asked(pushback, 1000, None) == 1000


def test_limit_ends_two_seconds_after_the_last_rejection() -> None:
    clock = Clock()
    pushback = Pushback(clock)
    num_asked(pushback, 500, BUSY)
    clock.now += 2.1
    assert num_asked(pushback, 500, None) == 500


def test_expired_rejections_are_evicted_by_any_call() -> None:
    clock = Clock()
    pushback = Pushback(clock)
    for index in range(9):
        ask(pushback, BUSY, (f"Bearer {index}", "m"))
    assert len(pushback) == 9
    clock.now += 2.1
    ask(pushback, None)
    assert len(pushback) == 0


def test_at_most_a_thousand_rejections_are_stored_and_the_oldest_is_evicted() -> None:
    pushback = Pushback(Clock())
    num_asked(pushback, 500, BUSY)
    for index in range(999):
        ask(pushback, BUSY, (f"Bearer {index}", "m"))
    assert not ask(pushback, None)
    ask(pushback, BUSY, ("Bearer 999", "m"))
    assert len(pushback) == 1000
    assert num_asked(pushback, 500, None) == 500


@pytest.mark.slow
def test_stored_rejection_keeps_no_reference_to_the_request() -> None:
    """A stored rejection keeps no reference to the request through its traceback."""

    class Body:
        """A body of up to 16 MiB."""

    pushback = Pushback(Clock())

    def serve() -> weakref.ref[Body]:
        body = Body()
        with pushback.guard(WHO):
            try:
                raise BUSY.with_texts({})
            finally:
                kept.append(weakref.ref(body))
        return kept[0]

    kept: list[weakref.ref[Body]] = []
    with pytest.raises(Failure):
        serve()
    gc.collect()
    assert len(pushback) == 1
    assert kept[0]() is None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the gateway's throttles, which stands still."""
    clock = Clock()
    monkeypatch.setattr(client, "Pushback", lambda: Pushback(clock))
    return clock


@pytest.mark.slow
@pytest.mark.parametrize(("path", "fields"), PATHS)
async def test_callers_cannot_distinguish_rejections(
    clock: Clock, gateway: Gateway, path: str, fields: dict[str, Any]
) -> None:
    """Status, body and retry delay are the service's; calls are sent again once it has capacity."""
    gateway.service.script = fakes.play([FULL])

    async def post() -> httpx.Response:
        return await gateway.http.post(path, json=chat_body(**fields))

    def visible(answer: httpx.Response) -> tuple[int, str | None, str]:
        own = answer.headers["x-request-id"]
        return answer.status_code, answer.headers.get("retry-after"), answer.text.replace(own, "")

    refused = visible(await post())
    assert refused[:2] in {(429, "3"), (529, "3")}
    answers = await asyncio.gather(*(post() for _ in range(2 * AT_ONCE)))
    assert {visible(answer) for answer in answers} == {refused}
    assert len(gateway.service.requests) == 1 + AT_ONCE
    gateway.service.script = fakes.play(fakes.HELLO)
    assert visible(await post()) == refused
    clock.now += 1.0
    assert (await post()).status_code == 200
