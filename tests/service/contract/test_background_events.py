"""Stored events of responses in the background: those after a number are found, and the terminal one always."""

from __future__ import annotations

import pytest
from sluice.v1 import response_item_pb2

from service.contract.responses.background import Event, events_after, opening, packed, terminal

RESPONSE = response_item_pb2.Response(id="r", status=response_item_pb2.RESPONSE_STATUS_COMPLETED)
LAST = 1 << 40


def numbers(after: int, *, last: int = 4) -> list[int]:
    """Return the numbers of the events after one of a response with the events 0 to 3 and a terminal one."""
    events = [*opening(RESPONSE), Event(sequence_number=2), Event(sequence_number=3), terminal(RESPONSE, last)]
    return [event.sequence_number for event in events_after(packed(map(Event.SerializeToString, events)), after)]


@pytest.mark.parametrize("last", [4, LAST])
def test_events_follow_the_number(last: int) -> None:
    assert numbers(-1, last=last) == [0, 1, 2, 3, last]
    assert numbers(1, last=last) == [2, 3, last]
    assert numbers(3, last=last) == [last]


@pytest.mark.parametrize("after", [4, 5, LAST, (1 << 64) - 1])
def test_terminal_event_follows_any_number(after: int) -> None:
    assert numbers(after) == [4]
    assert numbers(after, last=LAST) == [LAST]
