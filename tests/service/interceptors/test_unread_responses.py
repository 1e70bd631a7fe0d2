"""Responses that wait for their readers are ended, oldest first, if they take too much memory."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import pytest

from service.interceptors.unread_responses import UnreadResponses


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
            self.held.enter_context(self._unread.hold(1_000, partial(self.ended.append, self._number)))
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
