"""Responses in the background: the events around their generation, and the form in which events are stored."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sluice.v1 import error_pb2, response_event_pb2, response_item_pb2

Event = response_event_pb2.StreamResponseResponse
Response = response_item_pb2.Response

IN_PROGRESS: Final = response_item_pb2.RESPONSE_STATUS_IN_PROGRESS
UNFINISHED: Final = frozenset({response_item_pb2.RESPONSE_STATUS_QUEUED, IN_PROGRESS})
NUM_OPENING: Final = 2  # events of every response in the background, before those of its generation

_ENDS: Final = {
    response_item_pb2.RESPONSE_STATUS_COMPLETED: "completed",
    response_item_pb2.RESPONSE_STATUS_INCOMPLETE: "incomplete",
    response_item_pb2.RESPONSE_STATUS_FAILED: "failed",
    response_item_pb2.RESPONSE_STATUS_CANCELLED: "cancelled",
}
_LENGTH: Final = struct.Struct(">I")


def opening(response: Response) -> Sequence[Event]:
    """Return the first events of a response, which are known when it is queued, from any state before its end."""
    queued = Response()
    queued.CopyFrom(response)
    queued.status = response_item_pb2.RESPONSE_STATUS_QUEUED
    return (
        Event(sequence_number=0, created=response_event_pb2.ResponseCreated(response=queued)),
        Event(sequence_number=1, queued=response_event_pb2.ResponseQueued(response=queued)),
    )


def terminal(response: Response, number: int) -> Event:
    """Return the event that ends the stream of a response that has ended."""
    event = Event(sequence_number=number)
    getattr(event, _ENDS[response.status]).response.CopyFrom(response)
    return event


def is_terminal(event: Event) -> bool:
    """Return whether an event ends its stream."""
    return event.WhichOneof("event") in _ENDS.values()


def failed(response: Response, reason: error_pb2.ErrorReason, message: str) -> Response:
    """Return the final state of an unfinished response that an error ended."""
    ended = Response()
    ended.CopyFrom(response)
    ended.status = response_item_pb2.RESPONSE_STATUS_FAILED
    ended.error.reason, ended.error.message = reason, message
    return ended


def cancelled(response: Response) -> Response:
    """Return the final state of an unfinished response that its client stopped."""
    ended = Response()
    ended.CopyFrom(response)
    ended.status = response_item_pb2.RESPONSE_STATUS_CANCELLED
    return ended


def packed(events: Iterable[bytes]) -> bytes:
    """Return serialized events in the form in which they are stored."""
    return zlib.compress(b"".join(_LENGTH.pack(len(event)) + event for event in events))


def events_after(stored: bytes, number: int) -> Iterator[Event]:
    """Yield the stored events of a response that has ended after the one with that number; at least the terminal one.

    The number of an event is its index, except for that of the terminal one, which may be greater.
    """
    events = _unpacked(zlib.decompress(stored))
    for event in events[min(number + 1, len(events) - 1) :]:
        yield Event.FromString(event)


def _unpacked(data: bytes) -> list[bytes]:
    """Return the serialized events."""
    events, begin = [], 0
    while begin < len(data):
        (length,) = _LENGTH.unpack_from(data, begin)
        begin += _LENGTH.size
        events.append(data[begin : begin + length])
        begin += length
    return events
