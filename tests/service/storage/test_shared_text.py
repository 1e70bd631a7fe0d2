"""A text in Redis: only the reader of the newest text can change it, and lost content is restored."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import pytest
from redis import Redis

from service.storage.shared_text import Outdated, SharedText, SharedTextLost
from tests.redis_server import RedisServer
from tests.waiting import GUARD_S

Result = TypeVar("Result")


def test_write_after_an_unread_change_is_rejected(redis: RedisServer) -> None:
    """Of two writers that have read the same text, the second is rejected until it reads again."""
    one, other = SharedText(redis.url, "x", GUARD_S), SharedText(redis.url, "x", GUARD_S)
    assert (one.read(), other.read()) == (None, None)
    one.write("first")
    assert (one.is_newer(), other.is_newer()) == (False, True)
    with pytest.raises(Outdated):
        other.write("second")
    assert other.read() == "first"
    other.write("second")
    assert (one.is_newer(), one.read()) == (True, "second")
    one.close()
    other.close()


def test_texts_are_independent(redis: RedisServer) -> None:
    """Texts with different names are independent."""
    one, other = SharedText(redis.url, "x", GUARD_S), SharedText(redis.url, "y", GUARD_S)
    one.write("first")
    assert (other.is_newer(), other.read()) == (False, None)
    one.close()
    other.close()


def answered(call: Callable[[], Result]) -> Result:
    """Return the result of a call, made again if a slow machine exceeds the short timeout."""
    while True:
        with suppress(SharedTextLost):
            return call()


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_unreachable_or_hanging_server_counts_as_lost(fault: str, redis: RedisServer) -> None:
    """A lost server is usable again when it is back; a client that knows the lost content restores it."""
    timeout_s = GUARD_S if fault == "kill" else 0.2
    text, stranger = SharedText(redis.url, "x", timeout_s), SharedText(redis.url, "x", timeout_s)
    writer = SharedText(redis.url, "x", GUARD_S)
    writer.write("first")
    writer.close()
    assert answered(text.read) == "first"
    getattr(redis, fault)()
    for ask in (text.read, text.is_newer, lambda: text.write("second")):
        with pytest.raises(SharedTextLost):
            ask()
    if fault == "kill":
        redis.start()
    else:
        redis.resume()
    assert answered(text.is_newer) == (fault == "kill")
    assert answered(text.read) == "first"
    assert answered(stranger.read) == "first"
    text.close()
    stranger.close()


def test_a_restored_older_state_is_replaced_by_the_newest(redis: RedisServer) -> None:
    """A client that missed the last change restores its older state, which the newest one then replaces."""
    newest, behind = SharedText(redis.url, "x", GUARD_S), SharedText(redis.url, "x", GUARD_S)
    newest.write("first")
    assert behind.read() == "first"
    newest.write("second")
    redis.kill()
    redis.start()
    assert behind.read() == "first"
    assert newest.is_newer()
    assert newest.read() == "second"
    assert (behind.is_newer(), behind.read()) == (True, "second")
    newest.close()
    behind.close()


def test_changes_of_one_state_are_distinguished(redis: RedisServer) -> None:
    """Two changes that a server without its memory accepted have the same number, and are still distinguished."""
    one, other = SharedText(redis.url, "x", GUARD_S), SharedText(redis.url, "x", GUARD_S)
    one.write("first")
    redis.kill()
    redis.start()
    other.write("another")
    assert (one.is_newer(), one.read()) == (True, "another")
    one.close()
    other.close()


def test_invalid_content_counts_as_a_loss(redis: RedisServer) -> None:
    """Any other content of the key is reported as a loss."""
    text = SharedText(redis.url, "x", GUARD_S)
    with Redis.from_url(redis.url) as server:
        server.hset("sluice:x", mapping={"revision": "latest", "text": "t"})
    with pytest.raises(SharedTextLost):
        text.read()
    text.close()
