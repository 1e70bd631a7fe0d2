"""Responses that wait for their readers are ended, oldest first, if they take too much memory."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from service.interceptors.unread_responses import UnreadResponses


class Limit(NamedTuple):
    """The time limit of a response, which notes the response's number when it ends it."""

    number: int
    ended: list[int]

    def expired(self) -> bool:
        return self.number in self.ended

    def reschedule(self, when: float) -> None:
        assert when == 0.0
        self.ended.append(self.number)


class Waiting:
    """Responses of 1,000 bytes that nobody reads, on a clock that the test drives."""

    def __init__(self, **limits: int) -> None:
        self.now = 0.0
        self.ended: list[int] = []  # numbers of responses
        self.held = ExitStack()
        self._unread = UnreadResponses(**limits, clock=lambda: self.now)
        self._number = 0

    def hold(self, count: int) -> None:
        """Begin to send more responses."""
        for _ in range(count):
            self.held.enter_context(self._unread.hold(1_000, Limit(self._number, self.ended)))
            self._number += 1


@pytest.mark.parametrize("limits", [{"max_bytes": 3_500}, {"max_number": 3}], ids=["bytes", "number"])
def test_oldest_responses_make_room(limits: dict[str, int]) -> None:
    """A response that was ended, or that was sent, takes no more room."""
    waiting = Waiting(**limits)
    waiting.hold(3)
    waiting.now = 2.0
    waiting.hold(1)
    assert waiting.ended == [0]
    waiting.hold(1)
    assert waiting.ended == [0, 1]
    waiting.held.close()
    waiting.now = 4.0
    waiting.hold(3)
    assert waiting.ended == [0, 1]


def test_readers_have_a_second() -> None:
    """Clients that read at once lose no response, however many they receive at the same time."""
    waiting = Waiting(max_number=1)
    for _ in range(100):
        waiting.now += 0.009
        waiting.hold(1)
    assert not waiting.ended


async def test_a_response_whose_time_has_passed_leaves_the_others_alone() -> None:
    """Its limit may have expired while its task has not run yet; asyncio doesn't change the time of such a limit."""
    now = 0.0
    unread = UnreadResponses(max_number=1, clock=lambda: now)
    limits: list[asyncio.Timeout] = []
    is_sending = asyncio.Event()

    async def send_forever() -> None:
        async with asyncio.timeout(None) as limit:
            limits.append(limit)
            with unread.hold(1_000, limit):
                is_sending.set()
                await asyncio.Event().wait()

    sending = asyncio.create_task(send_forever())
    await is_sending.wait()
    limits[0].reschedule(0.0)
    await asyncio.sleep(0)  # the limit expires before this task resumes, and its own task resumes later
    assert limits[0].expired()
    assert not sending.done()
    now = 2.0
    for _ in range(2):
        async with asyncio.timeout(None) as limit:
            with unread.hold(1_000, limit):
                await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await sending
